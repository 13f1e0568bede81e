# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets imported from three configurations in TOPSAIL's manner, resolved as a run resolves them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_topsail_presets
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import storage_sources
from topsail_settings import (
    FMS,
    GATING,
    ILAB,
    MACHINES,
    MATRIX,
    SCALE,
    SETTINGS,
    TESTS,
    changed,
    points,
    preset,
    translated,
    unmapped,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")


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


def test_a_name_that_argparse_abbreviates_is_the_whole_one() -> None:
    config = changed(
        ILAB, ci_presets={"p": {"extends": ["ilab"], f"{SETTINGS}.hyper_parameters": {"cpu_offload_params": True}}}
    )
    assert points(config, "p")[0]["fine_tuning_hyper_parameters"]["cpu_offload_params_fsdp"] is True
