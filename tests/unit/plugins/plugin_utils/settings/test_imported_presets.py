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
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_presets
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_sources
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    resolve_settings,
    setting_templates,
    settings_catalogue,
    settings_context,
    settings_preflight,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROOT = settings_preflight.ROOT
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
DEFAULTS = settings_context.role_defaults(DataLoader(), CATALOGUE)

TESTS: dict[str, Any] = {
    "fine_tuning": {
        "namespace": "tuning",
        "matbenchmarking": {"enabled": False, "stop_on_error": True},
        "many_model": {"enabled": False, "count": 20, "timespan": 0},
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
SCALE = {
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
GATING = {
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
ILAB = {
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
    made, failed = write_presets.translate_wanted_presets(copy.deepcopy(config), wanted)
    text = write_presets.render_presets_file(made, failed)
    return yaml.safe_load(text)[write_presets.VARIABLE], failed


def points(config: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The settings of each point of an imported preset, in a run."""
    presets = translated(config, name)[0]
    variables = {write_presets.VARIABLE: presets, "preset": next(iter(presets))}
    request = settings_context.request_of_new_run("fine_tuning", variables, {}, DEFAULTS, CATALOGUE)
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render)
    checks = settings_preflight.read_checks(ROOT / "roles" / "fine_tuning" / "meta" / "checks.yml")
    assert [settings_preflight.first_refused(checks, one.settings, render) for one in found.measured] == [
        None for _one in found.measured
    ]
    return [one.settings for one in found.measured]


def test_a_single_test_has_what_its_presets_assign_and_no_null() -> None:
    (only,) = points(SCALE, "one")
    given = {"max_seq_length": 128, "response_template": "### Response:"}
    assert only["fine_tuning_hyper_parameters"] == {**OF_THE_ROLE, **given}
    expected = {
        "fine_tuning_flavour": "fms",
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
    assert list(translated(SCALE, "full")[0]["full"]["matrix"].values()) == [[1, 2, 4], [128, 256]]


@pytest.mark.parametrize(("names", "gpus"), [("one light", 0), ("smoke light", 4), ("light one", 2)])
def test_presets_applied_together_have_the_effect_of_their_order_and_of_their_edits(names: str, gpus: int) -> None:
    assert points(SCALE, names)[0]["fine_tuning_gpus"] == gpus


def test_points_that_differ_in_several_settings_are_listed_and_conditions_leave_points_out() -> None:
    found = points(GATING, "full")
    assert [one["fine_tuning_model_name"] for one in found] == ["org/a@hf", "org/b@hf"]
    assert all(one["fine_tuning_hyper_parameters"]["max_seq_length"] == 512 for one in found)
    assert (
        "skip_if: 1 of 3 points are left out" in write_presets.translate_wanted_presets(GATING, ["full"])[0][0].unmapped
    )
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
    (lab,) = write_presets.translate_wanted_presets(SOURCES, ["lab"])[0]
    assert {
        "secrets.git: set storage_hub_token",
        "secrets.aws: set storage_s3_access_key and storage_s3_secret_key",
        "theirs@dmf: it cannot be downloaded from dmf://: put theirs into the volume",
        "dataset tiny.json: convert.py: write it as a script for fine_tuning_dataset_transform",
    } == set(lab.unmapped)


def test_only_files_of_rows_in_a_volume_are_replicated() -> None:
    found = points(SOURCES, "many")
    seen = [(one["fine_tuning_dataset_name"], one["fine_tuning_dataset_replication"]) for one in found]
    assert seen == [("rows.jsonl", 2), ("notes.txt", 1), ("own.json", 2)]
    assert found[0]["storage_sources"] == [
        "https://huggingface.co/datasets/org/rows/resolve/main/rows.jsonl",
        "https://example.com/notes.txt",
    ]
    (many,) = write_presets.translate_wanted_presets(SOURCES, ["many"])[0]
    replication = f"{SETTINGS}.dataset_replication = 2: notes.txt is no .json or .jsonl file in a volume"
    assert replication in many.unmapped
    by_hand = "own.json: it cannot be downloaded from /filled/by/hand: put own.json into the volume"
    assert by_hand in many.unmapped


def test_without_a_volume_nothing_is_downloaded() -> None:
    (only,) = points(SOURCES, "bare")
    assert only["fine_tuning_model_name"] == "org/small" and only["fine_tuning_storage_claim"] == ""
    assert only["storage_sources"] == [] and only["fine_tuning_dataset_replication"] == 1


def test_networks_variables_and_arguments_of_another_program() -> None:
    found = points(ILAB, "nics")
    assert [one["fine_tuning_network_count"] for one in found] == [2, 4]
    assert found[0]["fine_tuning_networks"] == ["port-01", "port-02", "port-03", "port-04"]
    assert found[0]["fine_tuning_environment"] == {"NCCL_SOCKET_NTHREADS": "4"}
    assert found[0]["fine_tuning_hyper_parameters"] == {"num_epochs": 1}


def test_points_that_differ_only_in_what_has_no_counterpart_are_one() -> None:
    config = copy.deepcopy(SCALE)
    config["ci_presets"]["full"][f"{SETTINGS}.name"] = ["one", "two"]
    assert len(points(config, "full")) == 6


def test_many_jobs_come_at_the_rate_that_fills_their_time() -> None:
    (only,) = points(ILAB, "many")
    assert (only["fine_tuning_count"], only["fine_tuning_rate"]) == (60, 0.5)


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
    (full,) = write_presets.translate_wanted_presets(GATING, ["full"])[0]
    assert "export_artifacts.enabled = True: export_s3_url exports the run" in full.unmapped


def test_a_preset_that_topsail_cannot_apply_is_reported_and_the_others_are_written() -> None:
    presets, failed = translated(SCALE)
    assert failed == {"broken": "preset 'broken' extends 'scale', which does not exist"}
    assert {"one", "full", "smoke", "light"} <= set(presets)
    with pytest.raises(InputError, match="broken: preset 'broken' extends"):
        translated(SCALE, "broken")


def test_the_file_is_written_once_and_not_in_check_mode(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "topsail.yml"
    source.write_text(yaml.safe_dump(ILAB, sort_keys=False), encoding="utf-8")
    predicted = write_presets.write_presets_file(source, target, [], True)
    assert predicted["changed"] and predicted["diff"]["before"] == "" and not target.exists()
    assert write_presets.write_presets_file(source, target, [], False)["presets"] == ["ilab", "nics", "many"]
    assert target.read_text(encoding="utf-8") == predicted["diff"]["after"]
    again = write_presets.write_presets_file(source, target, [], False)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    with pytest.raises(InputError, match=r"src: there is no .*config.yml \(did you mean '.*config.yaml'\?\)"):
        write_presets.write_presets_file(tmp_path / "config.yml", target, [], False)
    with pytest.raises(InputError, match="there is no folder"):
        write_presets.write_presets_file(source, tmp_path / "no" / "x.yml", [], False)


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
        "nics": {f"{SETTINGS}.secondary_nic_prefix": "port-", f"{SETTINGS}.secondary_nic_count": [2, 4]},
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
    assert write_presets.translate_wanted_presets(MACHINES, ["spot"])[0][0].unmapped == []
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


def test_a_preset_of_lists_that_topsail_only_runs_with_another_is_a_matrix_and_says_so() -> None:
    assert [one["fine_tuning_network_count"] for one in points(MACHINES, "nics")] == [2, 4]
    (nics,) = write_presets.translate_wanted_presets(MACHINES, ["nics"])[0]
    assert any("matbenchmarking is not enabled" in one for one in nics.unmapped)
