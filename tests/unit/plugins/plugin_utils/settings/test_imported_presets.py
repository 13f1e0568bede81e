# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets imported from three configurations in TOPSAIL's manner, resolved as a run resolves them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_topsail_presets
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_sources
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    phase_preconditions,
    resolve_settings,
    setting_templates,
    settings_catalogue,
    settings_from_ansible,
)
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROOT = phase_preconditions.ROOT
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
DEFAULTS = settings_from_ansible.role_defaults(DataLoader(), CATALOGUE)

TESTS: dict[str, Any] = {
    "fine_tuning": {
        "namespace": "tuning",
        "matbenchmarking": {"enabled": False, "stop_on_error": True},
        "many_model": {"enabled": False, "count": 20, "kueue_name": "local-queue", "timespan": 0},
        "test_settings": {
            "name": "fine-tuning",
            "pod_count": 1,
            "model_name": "org/small@hf",
            "dataset_name": "tiny.json",
            "gpu": 1,
            "dataset_replication": 1,
            "container_image": None,
            "use_secondary_nic": None,
            "secondary_nic_prefix": None,
            "secondary_nic_count": None,
            "hyper_parameters": {},
        },
        "test_extra_settings": {},
        "fms": {"enabled": False, "image": "example.com/fms:1"},
        "ilab": {"enabled": False, "image": "example.com/ilab:@tests.fine_tuning.namespace"},
        "ray": {"enabled": False, "image": None},
    }
}
SETTINGS = "tests.fine_tuning.test_settings"
FMS = {
    "tests.fine_tuning.fms.enabled": True,
    "fine_tuning.default_response_template": "### Label:",
    f"{SETTINGS}.hyper_parameters": {
        "r": None,
        "max_seq_length": None,
        "peft_method": None,
        "raw_lists": None,
        "skip_if": {},
    },
}
#: What TOPSAIL's role sets unless a preset does.
OF_THE_ROLE = {
    "num_train_epochs": 1,
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 4,
    "gradient_accumulation_steps": 4,
    "eval_strategy": "no",
    "save_strategy": "no",
    "learning_rate": 1e-05,
    "weight_decay": 0,
    "lr_scheduler_type": "cosine",
    "max_seq_length": 4096,
    "include_tokens_per_second": True,
    "dataset_text_field": "output",
    "use_flash_attn": False,
}
#: A family over one model: nulls, lists as dimensions, a preset that extends others in the middle.
SCALE: dict[str, Any] = {
    "ci_presets": {
        "names": None,
        "fms": FMS,
        "one": {"extends": ["fms"], f"{SETTINGS}.gpu": 2, f"{SETTINGS}.hyper_parameters.max_seq_length": 128},
        "full": {
            f"{SETTINGS}.gpu": 8,
            "extends": ["one"],
            "tests.fine_tuning.matbenchmarking.enabled": True,
            "tests.fine_tuning.matbenchmarking.stop_on_error": False,
            f"{SETTINGS}.hyper_parameters.max_seq_length": [128, 256],
            f"{SETTINGS}.pod_count": [1, 2, 4],
        },
        "light": {f"{SETTINGS}.gpu": None, f"{SETTINGS}.dataset_replication": 0.5},
        "smoke": {"extends": ["one"], f'ci_presets.light["{SETTINGS}.gpu"]': 4},
        "broken": {"extends": ["scale"]},
    },
    "fine_tuning": {
        "default_response_template": None,
        "sources": {
            "tiny.json": {"type": "dataset", "source_dir": "https://example.com", "response_template": "@marker"},
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/"},
        },
    },
    "marker": "### Response:",
    "tests": TESTS,
}
#: Models that differ in more than one setting, conditions, lists that are values.
GATING: dict[str, Any] = {
    "ci_presets": {
        "fms": FMS,
        "full": {
            "extends": ["fms"],
            "export_artifacts.enabled": True,
            "tests.fine_tuning.matbenchmarking.enabled": True,
            f"{SETTINGS}.hyper_parameters.peft_method": "none",
            "tests.fine_tuning.test_extra_settings": [
                {"model_name": ["org/a", "org/b"], "hyper_parameters.max_seq_length": 512},
                {"model_name": "org/c", "gpu": 4, "hyper_parameters.skip_if": {"peft_method": "none"}},
            ],
        },
        "lora": {
            "extends": ["full"],
            f"{SETTINGS}.hyper_parameters.peft_method": "lora",
            f"{SETTINGS}.hyper_parameters.raw_lists": {"target_modules": ["q", "k"]},
        },
    },
    "fine_tuning": {
        "default_response_template": None,
        "sources": {
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/"},
            "tiny.json": {"type": "dataset", "source_dir": "https://example.com"},
        },
        "model_registry": "hf",
    },
    "export_artifacts": {"enabled": False},
    "tests": TESTS,
}
#: Networks, arguments and variables of another program; many jobs.
ILAB: dict[str, Any] = {
    "ci_presets": {
        "ilab": {
            "tests.fine_tuning.ilab.enabled": True,
            f"{SETTINGS}.hyper_parameters": {"num_epochs": 1, "max_batch_len": None, "NCCL_SOCKET_NTHREADS": 4},
        },
        "nics": {
            "extends": ["ilab"],
            "tests.fine_tuning.matbenchmarking.enabled": True,
            f"{SETTINGS}.secondary_nic_prefix": "port-",
            f"{SETTINGS}.secondary_nic_count": [2, 4],
        },
        "many": {
            "extends": ["ilab"],
            "tests.fine_tuning.many_model.enabled": True,
            "tests.fine_tuning.many_model.count": 60,
            "tests.fine_tuning.many_model.timespan": 2,
        },
    },
    "fine_tuning": {
        "sources": {
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/"},
            "tiny.json": {"type": "dataset", "source_dir": "https://huggingface.co/datasets/org/rows/resolve/main"},
        }
    },
    "tests": TESTS,
}


def translated(config: dict[str, Any], *wanted: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The presets as they are read from the written file, and those that were not imported."""
    made = write_topsail_presets.translate_wanted_presets(copy.deepcopy(config), wanted)
    return load(write_topsail_presets.render_presets_file(made))[write_topsail_presets.VARIABLE], made.refused


def load(text: str) -> Any:
    """A file of presets as settings have it: texts that are no templates are UnsafeText."""
    return parse_yaml(text, "presets", setting_templates.UnsafeText)


def unmapped(config: dict[str, Any], name: str) -> list[str]:
    """What was not translated of one preset."""
    return write_topsail_presets.translate_wanted_presets(config, [name]).presets[0].unmapped


def changed(config: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """A copy of a configuration with entries of these sections; ``tests`` stands for tests.fine_tuning."""
    made = copy.deepcopy(config)
    for section, entries in sections.items():
        target = made["tests"]["fine_tuning"] if section == "tests" else made.setdefault(section, {})
        target.update(copy.deepcopy(entries))
    return made


def points(config: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The settings of each point of an imported preset, in a run."""
    presets = translated(config, name)[0]
    variables = {write_topsail_presets.VARIABLE: presets, "preset": next(iter(presets))}
    request = settings_from_ansible.request_of_new_run("fine_tuning", variables, {}, DEFAULTS, CATALOGUE)
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render)
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "fine_tuning" / "meta" / "checks.yml")
    assert [checks_declared_by_roles.first_refused_setting(checks, one.settings, render) for one in found.measured] == [
        None for _one in found.measured
    ]
    return [one.settings for one in found.measured]


def test_a_single_test_has_what_its_presets_assign_and_no_null() -> None:
    (only,) = points(SCALE, "one")
    given = {"max_seq_length": 128, "response_template": "### Response:"}
    assert only["fine_tuning_hyper_parameters"] == {**OF_THE_ROLE, **given}
    expected = {
        "fine_tuning_flavour": "fms",
        "fine_tuning_api": "trainjob",
        "fine_tuning_image": "example.com/fms:1",
        "fine_tuning_namespace": "tuning",
        "fine_tuning_model_name": "org/small@hf",
        "fine_tuning_dataset_name": "tiny.json",
        "fine_tuning_dataset_replication": 1,
        "storage_sources": ["https://example.com/tiny.json"],
        "storage_registries": {},
        "fine_tuning_gpus": 2,
        "fine_tuning_pod_count": 1,
        "fine_tuning_count": 1,
        "run_stop_on_error": True,
    }
    assert {name: only[name] for name in expected} == expected


def test_lists_are_the_dimensions_of_a_matrix() -> None:
    found = points(SCALE, "full")
    seen = sorted(
        (one["fine_tuning_pod_count"], one["fine_tuning_hyper_parameters"]["max_seq_length"]) for one in found
    )
    assert seen == [(1, 128), (1, 256), (2, 128), (2, 256), (4, 128), (4, 256)]
    assert {one["fine_tuning_gpus"] for one in found} == {2}, "extends after it sets it again"
    assert not found[0]["run_stop_on_error"]
    assert list(translated(SCALE, "full")[0]["topsail_full"]["matrix"].values()) == [[1, 2, 4], [128, 256]]


@pytest.mark.parametrize(("names", "gpus"), [("one light", 0), ("smoke light", 4), ("light one", 2)])
def test_presets_applied_together_have_the_effect_of_their_order_and_of_their_edits(names: str, gpus: int) -> None:
    assert points(SCALE, names)[0]["fine_tuning_gpus"] == gpus


def test_points_that_differ_in_several_settings_are_listed_and_conditions_leave_points_out() -> None:
    found = points(GATING, "full")
    assert [one["fine_tuning_model_name"] for one in found] == ["org/a@hf", "org/b@hf"]
    assert all(one["fine_tuning_hyper_parameters"]["max_seq_length"] == 512 for one in found)
    assert "skip_if: 1 of 3 points are left out" in unmapped(GATING, "full")
    lora = points(GATING, "lora")
    assert [(one["fine_tuning_model_name"], one["fine_tuning_gpus"]) for one in lora] == [
        ("org/a@hf", 1),
        ("org/b@hf", 1),
        ("org/c@hf", 4),
    ]
    assert [one["fine_tuning_hyper_parameters"].get("max_seq_length") for one in lora] == [512, 512, 4096]
    assert all(one["fine_tuning_hyper_parameters"]["target_modules"] == ["q", "k"] for one in lora)
    assert all(one["fine_tuning_hyper_parameters"]["response_template"] == "### Label:" for one in lora)


#: Registries, credentials and a volume; a dataset that nobody can download.
SOURCES: dict[str, Any] = {
    "ci_presets": {
        "fms": FMS,
        "lab": {
            "extends": ["fms"],
            f"{SETTINGS}.model_name": ["org/small@hf", "tuned_7b", "base-1b", "theirs@dmf"],
            f"{SETTINGS}.dataset_replication": [1, 0.25, 4],
            "tests.fine_tuning.matbenchmarking.enabled": True,
        },
        "many": {
            "extends": ["fms"],
            f"{SETTINGS}.dataset_name": ["rows.jsonl", "notes.txt", "own.json"],
            f"{SETTINGS}.dataset_replication": 2,
            "tests.fine_tuning.matbenchmarking.enabled": True,
        },
        "bare": {"extends": ["fms"], "fine_tuning.pvc.name": None, f"{SETTINGS}.dataset_replication": 2},
    },
    "fine_tuning": {
        "default_response_template": None,
        "model_registry": "lab",
        "pvc": {"name": "tuning", "access_mode": "ReadWriteMany", "size": "500Gi", "storage_class_name": None},
        "sources": {
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/", "secret_key": "secrets.git"},
            "lab": {"type": "model-registry", "source_dir": "s3://models/", "secret_key": "secrets.aws"},
            "dmf": {"type": "model-registry", "source_dir": "dmf://", "secret_key": "secrets.dmf"},
            "base-1b": {"type": "model", "source_dir": "s3://elsewhere/base", "secret_key": "secrets.aws"},
            "tiny.json": {"type": "dataset", "source_dir": "https://example.com/a/", "transform": "convert.py"},
            "rows.jsonl": {"type": "dataset", "source_dir": "https://huggingface.co/datasets/org/rows/resolve/main"},
            "notes.txt": {"type": "dataset", "source_dir": "https://example.com"},
            "own.json": {"type": "dataset", "source_dir": "/filled/by/hand"},
        },
    },
    "tests": TESTS,
}


def test_models_and_datasets_are_downloaded_from_where_topsail_gets_them() -> None:
    found = points(SOURCES, "lab")
    names = ["org/small@hf", "tuned_7b@lab", "base-1b", "theirs"]
    seen = [(one["fine_tuning_model_name"], one["fine_tuning_dataset_replication"]) for one in found]
    assert seen == [(name, factor) for name in names for factor in (1, 0.25, 4)]
    downloads = {
        "storage_sources": ["s3://elsewhere/base/base-1b", "https://example.com/a/tiny.json"],
        "storage_registries": {"lab": "s3://models/"},
        "storage_access_mode": "ReadWriteMany",
        "storage_size": "500Gi",
        "storage_class": "",
        "fine_tuning_storage_claim": "tuning",
    }
    for one in found:
        assert {
            name: sorted(value, reverse=True) if isinstance(value, list) else value
            for name in downloads
            for value in [one[name]]
        } == downloads
        asked = [*one["storage_sources"], one["fine_tuning_model_name"]]
        storage_sources.read_sources(
            [name for name in asked if "@" in name or "://" in name], one["storage_registries"]
        )
    lab = unmapped(SOURCES, "lab")
    assert {
        "secrets.git: set storage_hub_token",
        "secrets.aws: set storage_s3_access_key and storage_s3_secret_key",
        "theirs@dmf: it cannot be downloaded from dmf://: put theirs into the volume",
        "dataset tiny.json: convert.py: write it as a script for fine_tuning_dataset_transform",
    } == set(lab)


def test_only_files_of_rows_in_a_volume_are_replicated() -> None:
    found = points(SOURCES, "many")
    seen = [(one["fine_tuning_dataset_name"], one["fine_tuning_dataset_replication"]) for one in found]
    assert seen == [("rows.jsonl", 2), ("notes.txt", 1), ("own.json", 2)]
    assert found[0]["storage_sources"] == [
        "https://huggingface.co/datasets/org/rows/resolve/main/rows.jsonl",
        "https://example.com/notes.txt",
    ]
    many = unmapped(SOURCES, "many")
    replication = f"{SETTINGS}.dataset_replication = 2: notes.txt is no .json or .jsonl file in a volume"
    assert replication in many
    by_hand = "own.json: it cannot be downloaded from /filled/by/hand: put own.json into the volume"
    assert by_hand in many


def test_without_a_volume_nothing_is_downloaded() -> None:
    (only,) = points(SOURCES, "bare")
    assert only["fine_tuning_model_name"] == "org/small" and only["fine_tuning_storage_claim"] == ""
    assert only["storage_sources"] == [] and only["fine_tuning_dataset_replication"] == 1


def test_networks_variables_and_arguments_of_another_program() -> None:
    found = points(ILAB, "nics")
    assert [one["fine_tuning_network_count"] for one in found] == [2, 4]
    assert found[0]["fine_tuning_networks"] == ["port-01", "port-02", "port-03", "port-04"]
    assert found[0]["fine_tuning_environment"] == {"NCCL_SOCKET_NTHREADS": "4"}
    of_the_template = {
        "num_epochs": 1,
        "effective_batch_size": 3840,
        "learning_rate": 1e-4,
        "num_warmup_steps": 800,
        "save_samples": 0,
        "log_level": "INFO",
        "max_batch_len": 20000,
        "seed": 42,
        "distributed_training_framework": "fsdp",
        "use_dolomite": True,
    }
    assert found[0]["fine_tuning_hyper_parameters"] == of_the_template


def test_points_that_differ_only_in_what_has_no_counterpart_are_one() -> None:
    config = copy.deepcopy(SCALE)
    config["ci_presets"]["full"][f"{SETTINGS}.name"] = ["one", "two"]
    assert len(points(config, "full")) == 6


def test_many_jobs_come_at_random_times_and_not_through_kueue() -> None:
    (only,) = points(ILAB, "many")
    assert (only["fine_tuning_count"], only["fine_tuning_rate"]) == (60, 0)
    assert only["fine_tuning_arrival"] == {"type": "poisson", "timespan": 120}
    assert (only["fine_tuning_queue"], only["rehearsal_components"]) == ("local-queue", ["kueue"])
    assert not [why for why in unmapped(ILAB, "many") if "kueue_name" in why]


def test_several_models_come_one_after_the_other_and_then_at_once() -> None:
    config = copy.deepcopy(SOURCES)
    config["tests"]["fine_tuning"]["multi_model"] = {"enabled": False, "models": [{"name": "none"}]}
    models = [{"name": "org/small@hf", "replicas": 2}, {"name": "tuned_7b"}]
    several = {"tests.fine_tuning.multi_model.enabled": True, f"{SETTINGS}.model_name": None}
    config["ci_presets"]["both"] = {"extends": ["fms"], **several, "tests.fine_tuning.multi_model.models": models}
    found = points(config, "both")
    seen = [one["fine_tuning_models"] for one in found]
    assert seen == [{"org/small@hf": 1}, {"tuned_7b@lab": 1}, {"org/small@hf": 2, "tuned_7b@lab": 1}]
    assert found[0]["storage_registries"] == {"lab": "s3://models/"}
    with pytest.raises(InputError, match="multi_model and matbenchmarking are both enabled"):
        points(config, "lab both")


def test_what_has_no_counterpart_is_listed_with_its_reason() -> None:
    assert "export_artifacts.enabled = True: export_s3_url exports the run" in unmapped(GATING, "full")


def test_a_preset_that_topsail_cannot_apply_is_reported_and_the_others_are_written() -> None:
    presets, failed = translated(SCALE)
    assert failed == {
        "broken": "preset 'broken' extends 'scale', which does not exist",
        "light": "it enables none of fms, ilab and ray; name it with one that does, such as 'fms <preset>'",
    }
    assert set(presets) == {"topsail_fms", "topsail_one", "topsail_full", "topsail_smoke"}
    with pytest.raises(InputError, match="broken: preset 'broken' extends"):
        translated(SCALE, "broken")


def test_the_file_is_written_once_and_not_in_check_mode(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "topsail.yml"
    source.write_text(yaml.safe_dump(ILAB, sort_keys=False), encoding="utf-8")
    predicted = write_topsail_presets.write_presets_file(source, target, [], True)
    assert predicted["changed"] and predicted["diff"]["before"] == "" and not target.exists()
    names = ["topsail_ilab", "topsail_nics", "topsail_many"]
    assert write_topsail_presets.write_presets_file(source, target, [], False)["presets"] == names
    assert target.read_text(encoding="utf-8") == predicted["diff"]["after"]
    again = write_topsail_presets.write_presets_file(source, target, [], False)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    with pytest.raises(InputError, match=r"src: there is no .*config.yml \(did you mean '.*config.yaml'\?\)"):
        write_topsail_presets.write_presets_file(tmp_path / "config.yml", target, [], False)
    with pytest.raises(InputError, match="there is no folder"):
        write_topsail_presets.write_presets_file(source, tmp_path / "no" / "x.yml", [], False)


#: Machines that are added, operators of GPUs, a volume for the output, a script that rewrites the dataset.
MACHINES: dict[str, Any] = {
    "ci_presets": {
        "fms": FMS,
        "gpu": {
            "extends": ["fms"],
            "gpu.prepare_cluster": True,
            "clusters.sutest.compute.machineset.type": "g5.2xlarge",
            "clusters.sutest.compute.machineset.count": 2,
            f"{SETTINGS}.ephemeral_output_pvc_size": "100Gi",
        },
        "spot": {"extends": ["gpu"], "clusters.sutest.compute.machineset.spot": True},
        "shared": {"extends": ["gpu"], "clusters.sutest.compute.dedicated": False},
        "each": {
            "extends": ["gpu"],
            "tests.fine_tuning.node_count_equal_pod_count": True,
            "tests.fine_tuning.matbenchmarking.enabled": True,
            f"{SETTINGS}.pod_count": [2, 1],
        },
        "metal": {"extends": ["gpu"], "clusters.sutest.is_metal": True},
    },
    "gpu": {"prepare_cluster": False},
    "clusters": {
        "sutest": {
            "is_metal": False,
            "compute": {
                "dedicated": True,
                "machineset": {
                    "name": "workload-pods",
                    "type": "m6i.2xlarge",
                    "count": None,
                    "spot": False,
                    "rest_count": 0,
                    "taint": {"key": "only-pods", "value": "yes", "effect": "NoSchedule"},
                },
            },
        }
    },
    "fine_tuning": {
        "default_response_template": None,
        "sources": {
            "tiny.json": {"type": "dataset", "source_dir": "https://example.com", "transform": "convert_alpaca.py"},
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/"},
        },
    },
    "tests": copy.deepcopy(TESTS),
}
MACHINES["tests"]["fine_tuning"]["node_count_equal_pod_count"] = False
MACHINES["tests"]["fine_tuning"]["test_settings"]["ephemeral_output_pvc_size"] = None


def test_machines_and_operators_of_gpus_are_those_that_topsail_adds() -> None:
    (only,) = points(MACHINES, "spot")
    expected = {
        "stack": ["nfd", "gpu_operator"],
        "node_scaling_count": 2,
        "node_scaling_name": "workload-pods",
        "node_scaling_instance_type": "g5.2xlarge",
        "node_scaling_spot": True,
        "node_scaling_taint": "only-pods=yes:NoSchedule",
        "fine_tuning_tolerations": [{"key": "only-pods", "operator": "Exists", "effect": "NoSchedule"}],
        "fine_tuning_node_selector": {"only-pods": "yes"},
        "fine_tuning_output_claim": "output",
        "fine_tuning_output_size": "100Gi",
        "fine_tuning_dataset_transform": "text",
    }
    assert {name: only[name] for name in expected} == expected
    assert unmapped(MACHINES, "spot") == []
    (shared,) = points(MACHINES, "shared")
    assert (shared["node_scaling_count"], shared["node_scaling_taint"], shared["fine_tuning_tolerations"]) == (
        2,
        "",
        [],
    )
    each = [(one["fine_tuning_pod_count"], one["node_scaling_count"]) for one in points(MACHINES, "each")]
    assert sorted(each) == [(1, 1), (2, 2)]
    (metal,) = points(MACHINES, "metal")
    assert metal["node_scaling_count"] == 0 and metal["stack"] == ["nfd", "gpu_operator"]


def test_without_added_nodes_the_import_says_that_topsail_isolates_the_pods() -> None:
    (only,) = points(MACHINES, "fms")
    assert only["fine_tuning_node_selector"] == {} and only["node_scaling_count"] == 0
    assert any(why.startswith("clusters.sutest.compute.dedicated: ") for why in unmapped(MACHINES, "fms"))


def preset(**keys: Any) -> dict[str, Any]:
    """A configuration with preset p, which assigns these keys of the test settings."""
    assigned = {f"{SETTINGS}.{key}": value for key, value in keys.items()}
    return changed(GATING, ci_presets={"p": {"extends": ["fms"], **assigned}})


MATRIX = {"tests.fine_tuning.matbenchmarking.enabled": True}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({f"{SETTINGS}.gpu": "ten"}, "gpu = 'ten' is not a whole number"),
        ({f"{SETTINGS}.gpu": True}, "gpu = True is not a whole number"),
        ({f"{SETTINGS}.pod_count": -1}, "pod_count = -1 is not a whole number"),
        ({f"{SETTINGS}.gpu": [1, 2]}, r"gpu = \[1, 2\] is not a whole number"),
        ({f"{SETTINGS}.model_name": {"a": 1}}, "model_name = .* is not a text"),
        ({f"{SETTINGS}.model_name": None}, "model_name is not set"),
        ({f"{SETTINGS}.model_name": "@tests.no.such"}, "there is no key 'no' in tests"),
        ({f"{SETTINGS}.model_name": f"@{SETTINGS}.model_name"}, "references lead in a circle"),
        ({f"{SETTINGS}.model_name": "*$@secrets.x"}, "refers to a secret"),
        ({SETTINGS: "text"}, "test_settings is no dictionary"),
        ({f"{SETTINGS}.hyper_parameters": "text"}, "hyper_parameters is no dictionary"),
        ({f"{SETTINGS}.hyper_parameters": {"a b": 1}}, "'a b' is not the name of a hyperparameter"),
        ({f"{SETTINGS}.hyper_parameters": {"r": float("nan")}}, "r = nan is no text, number"),
        ({f"{SETTINGS}.hyper_parameters": {"raw_lists": "text"}}, "raw_lists is no dictionary"),
        ({f"{SETTINGS}.secondary_nic_count": 2}, "secondary_nic_prefix is not"),
        ({"tests.fine_tuning.test_extra_settings": [{"gpu": 1}]}, "TOPSAIL refuses unless matbenchmarking"),
        ({"tests.fine_tuning.test_extra_settings": "text"}, "test_extra_settings is no list of dictionaries"),
        ({"tests.fine_tuning.many_model": {"enabled": True, "count": "ten"}}, "count = 'ten' is not a whole number"),
        ({"tests.fine_tuning.ilab.enabled": True}, "enables fms and ilab"),
        ({**MATRIX, f"{SETTINGS}.gpu": []}, "it has no point: gpu is an empty list"),
        ({**MATRIX, f"{SETTINGS}.gpu": list(range(50)), f"{SETTINGS}.pod_count": list(range(1, 51))}, "2,500 points"),
        ({"a..b": 1}, "cannot be read"),
        ({"tests.*.x": 1}, "cannot be read"),
        ({"": 1}, "cannot be read"),
    ],
)
def test_one_odd_preset_is_refused_by_itself(keys: dict[str, Any], why: str) -> None:
    made = write_topsail_presets.translate_wanted_presets(
        changed(GATING, ci_presets={"p": {"extends": ["fms"], **keys}}), []
    )
    assert [one.name for one in made.presets] == ["topsail_fms", "topsail_full", "topsail_lora"]
    with pytest.raises(InputError, match=why):
        raise InputError(made.refused["p"])


@pytest.mark.parametrize("name", [123, "überlast", "my preset", "x\nfine_tuning_presets: {}", "list of", ""])
@pytest.mark.parametrize("entry", [{"extends": ["fms"]}, None, ["fms"], "fms", {"extends": None}])
def test_an_odd_name_or_entry_is_refused_by_itself(name: Any, entry: Any) -> None:
    made = write_topsail_presets.translate_wanted_presets(changed(GATING, ci_presets={name: entry, "twin": entry}), [])
    assert str(name) in made.refused and ("twin" in made.refused) == (entry != {"extends": ["fms"]})
    text = write_topsail_presets.render_presets_file(made)
    assert list(load(text)) == [write_topsail_presets.VARIABLE]


def test_no_text_of_the_configuration_becomes_a_template(tmp_path: Path) -> None:
    texts = ["{{ lookup('pipe', 'false') }}", "{% if x %}", "{# c #}", "### Input: {{input}}"]
    config = preset(container_image=texts[0], hyper_parameters={"data_formatter_template": texts[3]})
    config["ci_presets"]["p"] |= {
        **MATRIX,
        f"{SETTINGS}.model_name": texts[:3],
        "tests.fine_tuning.namespace": texts[1],
    }
    source, target = tmp_path / "config.yaml", tmp_path / "out.yml"
    source.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    write_topsail_presets.write_presets_file(source, target, ["p"], False)
    loaded = DataLoader().load_from_file(str(target), unsafe=True, trusted_as_template=True)
    variables = {**loaded, "preset": "topsail_p"}
    request = settings_from_ansible.request_of_new_run("fine_tuning", variables, {}, DEFAULTS, CATALOGUE)
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = [one.settings for one in resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render).measured]
    assert [one["fine_tuning_model_name"].partition("@")[0] for one in found] == texts[:3]
    assert found[0]["fine_tuning_image"] == texts[0] and found[0]["fine_tuning_namespace"] == texts[1]
    assert found[0]["fine_tuning_hyper_parameters"]["data_formatter_template"] == texts[3]


def test_a_condition_leaves_a_point_out_if_any_entry_fits_also_one_of_raw_lists() -> None:
    hyper = {"peft_method": "none", "skip_if": {"r": 4, "peft_method": "none"}}
    skipping = changed(preset(gpu=[1, 2], hyper_parameters=hyper), ci_presets={})
    skipping["ci_presets"]["p"] |= MATRIX
    with pytest.raises(InputError, match="skip_if leaves no point"):
        points(skipping, "p")
    hyper = {"raw_lists": {"target_modules": ["q"]}, "skip_if": {"target_modules": ["q"]}}
    skipping["ci_presets"]["p"][f"{SETTINGS}.hyper_parameters"] = hyper
    with pytest.raises(InputError, match="skip_if leaves no point"):
        points(skipping, "p")


def test_points_have_their_own_networks_and_a_list_of_networks_is_a_dimension() -> None:
    config = preset(use_secondary_nic=["a", "b"])
    assert points(config, "p")[0]["fine_tuning_networks"] == ["a", "b"]
    config["ci_presets"]["p"] |= MATRIX
    assert [one["fine_tuning_networks"] for one in points(config, "p")] == [["a"], ["b"]]
    extra = [{"secondary_nic_prefix": "net-", "secondary_nic_count": 2}, {"gpu": 2}]
    config = changed(GATING, ci_presets={"p": {"extends": ["fms"], **MATRIX}}, tests={"test_extra_settings": extra})
    seen = [(one["fine_tuning_networks"], one["fine_tuning_network_count"]) for one in points(config, "p")]
    assert seen == [(["net-01", "net-02"], 2), ([], 0)]


def test_a_text_with_a_star_is_a_value() -> None:
    (only,) = points(preset(hyper_parameters={"target_modules": "*_proj"}, gpu=8), "p")
    assert only["fine_tuning_hyper_parameters"]["target_modules"] == "*_proj" and only["fine_tuning_gpus"] == 8


def test_extra_settings_of_points_that_have_no_counterpart_are_listed() -> None:
    config = changed(GATING, ci_presets={"p": {"extends": ["fms"], **MATRIX}})
    config["tests"]["fine_tuning"]["test_extra_settings"] = [{"request_equals_limits": True}, {"sleep_forever": True}]
    listed = unmapped(config, "p")
    for key in ("request_equals_limits", "sleep_forever"):
        assert f"{SETTINGS}.{key} = True: there is no such setting" in listed


def test_values_outside_of_presets_are_listed_and_presets_of_every_run_are_applied() -> None:
    config = changed(
        GATING,
        rhods={"catalog": {"tag": "latest"}, "users": [{"name": "jo", "password": "kanary-2"}]},
        matbench={"api_token": "kanary-1", "url": "https://x/?token=kanary-4"},
        ci_presets={
            "always": {f"{SETTINGS}.gpu": 3},
            "to_apply": ["always"],
            "variable_overrides": {f"{SETTINGS}.pod_count": 2, "matbench.api_token": "kanary-3"},
        },
    )
    made = write_topsail_presets.translate_wanted_presets(config, ["fms"])
    assert made.presets[0].settings["fine_tuning_gpus"] == 3 and made.presets[0].settings["fine_tuning_pod_count"] == 2
    text = write_topsail_presets.render_presets_file(made)
    assert "rhods.catalog.tag = latest: " in text and "export_artifacts.enabled = False: " in text
    assert "ci_presets.to_apply = ['always']" in text and "ci_presets.variable_overrides = " in text
    assert "kanary" not in text and "'name': 'jo'" in text


def test_a_name_that_argparse_abbreviates_is_the_whole_one() -> None:
    config = changed(
        ILAB, ci_presets={"p": {"extends": ["ilab"], f"{SETTINGS}.hyper_parameters": {"cpu_offload_params": True}}}
    )
    assert points(config, "p")[0]["fine_tuning_hyper_parameters"]["cpu_offload_params_fsdp"] is True


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"ci_presets: {}\nx: caf\xe9\n", "it is not text in UTF-8"),
        ("ci_presets: {}\n".encode("utf-16"), "it is not text in UTF-8"),
        (b"a: [", "not readable as YAML"),
        (b"", "no configuration of TOPSAIL"),
        (b"ci_presets: {a: {}}\ntests: {kserve: {}}\n", "it is not of TOPSAIL's project fine_tuning"),
        (b"ci_presets: {}\ntests: {fine_tuning: {test_settings: {}}}\n", "none of its presets can be imported"),
        (
            b"a: &a [1]\n"
            + b"".join(b"%c: &%c [%b]\n" % (98 + n, 98 + n, b", ".join([b"*%c" % (97 + n)] * 9)) for n in range(8))
            + b"ci_presets: {}\n",
            "its aliases expand",
        ),
        (b"ci_presets: {}\na: &a [*a]\n", "an alias refers to a part that contains it"),
        (b"ci_presets: {}\na: " + b"[" * 60 + b"]" * 60, "more than 50 levels"),
        (b"#" * 2**21, "more than 1 MiB"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(InputError, match=why):
        write_topsail_presets.write_presets_file(tmp_path / "config.yaml", tmp_path / "out.yml", [], False)
    assert not (tmp_path / "out.yml").exists()


def test_only_a_file_that_an_import_has_written_is_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "topsail.yml"
    source.write_text(yaml.safe_dump(ILAB, sort_keys=False), encoding="utf-8")
    for content in ("mine: 1\n", "", f"---\n{write_topsail_presets.HEADER}\nmine: 1\n"):
        target.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match="was not written by an import"):
            write_topsail_presets.write_presets_file(source, target, [], False)
        assert target.read_text(encoding="utf-8") == content
    target.unlink()
    write_topsail_presets.write_presets_file(source, target, [], False)
    assert write_topsail_presets.write_presets_file(source, target, ["nics"], False)["presets"] == ["topsail_nics"]
    target.write_text(target.read_text(encoding="utf-8").replace("port-01", "port-99"), encoding="utf-8")
    with pytest.raises(InputError, match="or was edited since"):
        write_topsail_presets.write_presets_file(source, target, [], False)
    with pytest.raises(InputError, match="end with .yml or .yaml"):
        write_topsail_presets.write_presets_file(source, tmp_path / "topsail.txt", [], False)
    with pytest.raises(InputError, match="cannot be written"):
        write_topsail_presets.write_presets_file(source, Path("/proc/topsail.yml"), [], False)
    with pytest.raises(InputError, match="is a folder"):
        write_topsail_presets.write_presets_file(tmp_path, target, [], False)


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["@a.x", "*$@a", "fms"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
LEAVES = write_topsail_presets.topsail_configuration.leaf_values(MACHINES)
KEYS = [key for key, _value in LEAVES if not key.startswith("ci_presets")]


@settings(max_examples=40)
@given(st.sampled_from([*KEYS, "tests.fine_tuning", SETTINGS, "clusters.sutest", "fine_tuning.sources"]), ODD)
def test_any_value_of_any_key_is_translated_or_refused_by_itself(key: str, value: Any) -> None:
    config = changed(MACHINES, ci_presets={"odd": {"extends": ["gpu"], key: value}})
    made = write_topsail_presets.translate_wanted_presets(config, [])
    assert {"topsail_gpu", "topsail_spot"} <= {one.name for one in made.presets}
    assert ("odd" in made.refused) != ("topsail_odd" in {one.name for one in made.presets})
    loaded = load(write_topsail_presets.render_presets_file(made))
    assert list(loaded) == [write_topsail_presets.VARIABLE]
    assert loaded[write_topsail_presets.VARIABLE].keys() == {one.name for one in made.presets}
