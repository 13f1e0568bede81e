# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/from_topsail.md names each preset of TOPSAIL that is not imported alone, and every key that one assigns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "from_topsail.md").read_text(encoding="utf-8")
TESTS = "tests.fine_tuning."

#: Of its config.yaml: 28 of 57 presets, and the 79 keys that all assign.
PRESETS = [
    "single",
    "keep",
    "light_cluster",
    "light",
    "gpu",
    "dgx_single_model_multi_gpu",
    "dgx_single_model",
    "multi_model",
    "hf_evaluation",
    "dgx_multi_model_8",
    "multi_node_training",
    "metal",
    "not_metal",
    "use_intlab_os",
    "use_smoke_os",
    "gating_smoke",
    "no_model",
    "ilab_secondary_nic",
    "ray_bench_scale",
    "cluster_instructlab",
    "cluster_ibm_dgx",
    "cluster_dgx",
    "cluster_icelake",
    "cluster_a30",
    "cluster_kubecon_roce",
    "cluster_h100",
    "cluster_rhoai_h100",
    "gating",
]
KEYS = [
    'ci_presets.gpu["clusters.sutest.compute.machineset.type"]',
    'ci_presets.light["tests.fine_tuning.test_settings.dataset_name"]',
    'ci_presets.light["tests.fine_tuning.test_settings.gpu"]',
    'ci_presets.light["tests.fine_tuning.test_settings.model_name"]',
    "clusters.create.keep",
    "clusters.create.ocp.deploy_cluster.target",
    "clusters.create.ocp.tags.Project",
    "clusters.create.type",
    "clusters.sutest.compute.dedicated",
    "clusters.sutest.compute.machineset.count",
    "clusters.sutest.compute.machineset.name",
    "clusters.sutest.compute.machineset.rest_count",
    "clusters.sutest.compute.machineset.spot",
    "clusters.sutest.compute.machineset.taint",
    "clusters.sutest.compute.machineset.type",
    "clusters.sutest.is_metal",
    "export_artifacts.enabled",
    "fine_tuning.default_response_template",
    "fine_tuning.model_registry",
    "fine_tuning.pvc.access_mode",
    "fine_tuning.pvc.name",
    "fine_tuning.pvc.size",
    "fine_tuning.pvc.storage_class_name",
    "gpu.prepare_cluster",
    "matbench.config_file",
    "matbench.lts.generate",
    "matbench.lts.opensearch.export.enabled",
    "matbench.lts.opensearch.index_prefix",
    "matbench.lts.opensearch.instance",
    "matbench.lts.regression_analyses.enabled",
    "matbench.lts.regression_analyses.notification.title",
    "matbench.prom_workload",
    "matbench.workload",
    "nfs_provisioner.enabled",
    "nfs_provisioner.pvc_sc",
    "nfs_provisioner.storage_size",
    "tests.capture_prom",
    "tests.fine_tuning.fms.enabled",
    "tests.fine_tuning.ilab.enabled",
    "tests.fine_tuning.many_model.count",
    "tests.fine_tuning.many_model.enabled",
    "tests.fine_tuning.many_model.timespan",
    "tests.fine_tuning.matbenchmarking.enabled",
    "tests.fine_tuning.matbenchmarking.stop_on_error",
    "tests.fine_tuning.multi_model.enabled",
    "tests.fine_tuning.multi_model.models",
    "tests.fine_tuning.namespace",
    "tests.fine_tuning.node_count_equal_pod_count",
    "tests.fine_tuning.ray.enabled",
    "tests.fine_tuning.ray.workload",
    "tests.fine_tuning.test_extra_settings",
    "tests.fine_tuning.test_settings.dataset_name",
    "tests.fine_tuning.test_settings.dataset_replication",
    "tests.fine_tuning.test_settings.ephemeral_output_pvc_size",
    "tests.fine_tuning.test_settings.gpu",
    "tests.fine_tuning.test_settings.hyper_parameters",
    "tests.fine_tuning.test_settings.hyper_parameters.cpu_offload_optimizer",
    "tests.fine_tuning.test_settings.hyper_parameters.cpu_offload_params",
    "tests.fine_tuning.test_settings.hyper_parameters.gradient_accumulation_steps",
    "tests.fine_tuning.test_settings.hyper_parameters.lora_alpha",
    "tests.fine_tuning.test_settings.hyper_parameters.max_batch_len",
    "tests.fine_tuning.test_settings.hyper_parameters.max_seq_length",
    "tests.fine_tuning.test_settings.hyper_parameters.num_epochs",
    "tests.fine_tuning.test_settings.hyper_parameters.num_samples",
    "tests.fine_tuning.test_settings.hyper_parameters.num_train_epochs",
    "tests.fine_tuning.test_settings.hyper_parameters.peft_method",
    "tests.fine_tuning.test_settings.hyper_parameters.per_device_train_batch_size",
    "tests.fine_tuning.test_settings.hyper_parameters.r",
    "tests.fine_tuning.test_settings.hyper_parameters.raw_lists",
    "tests.fine_tuning.test_settings.hyper_parameters.use_flash_attn",
    "tests.fine_tuning.test_settings.model_name",
    "tests.fine_tuning.test_settings.name",
    "tests.fine_tuning.test_settings.node_selector_key",
    "tests.fine_tuning.test_settings.node_selector_value",
    "tests.fine_tuning.test_settings.pod_count",
    "tests.fine_tuning.test_settings.secondary_nic_count",
    "tests.fine_tuning.test_settings.secondary_nic_prefix",
    "tests.fine_tuning.test_settings.shared_memory",
    "tests.fine_tuning.test_settings.use_secondary_nic",
]


def rows(title: str) -> dict[str, str]:
    """Cells of the first column of the tables below a heading -> the rest of the row."""
    part = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = [re.fullmatch(r"\| (.*?) \|(.*)\|", line) for line in part.splitlines()]
    return {one[1]: one[2] for one in found if one and "`" in one[1]}


def names(cell: str) -> list[str]:
    """Names in a cell; ``a.b`, `c`` after ``x.y`` stand for x.b and so on, as in the table of keys."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_lists_are_those_of_the_configuration() -> None:
    assert (len(PRESETS), len(set(PRESETS))) == (28, 28) and (len(KEYS), len(set(KEYS))) == (79, 79)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_that_is_not_imported_alone_has_a_row(preset: str) -> None:
    there = [one for cell in rows("Presets") for one in names(cell)]
    assert any(one == preset or (one.endswith("…") and preset.startswith(one[:-1])) for one in there)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_a_row_of_it_or_of_a_key_above_it(key: str) -> None:
    if key.startswith("ci_presets."):
        assert "a preset that edits another" in PAGE
        return
    known = set()
    for cell in rows("Keys"):
        above = ""
        for one in names(cell):
            if "." in one:
                above = one.rpartition(".")[0] + "."
            known |= {one, above + one}
            known |= {one.replace("<flavour>", flavour) for flavour in ("fms", "ilab", "ray")}
    short = key.removeprefix(TESTS)
    parts = short.split(".")
    assert any(".".join(parts[:number]) in known for number in range(1, len(parts) + 1))


def test_presets_and_settings_that_the_page_names_exist() -> None:
    presets: set[str] = set()
    for path in (ROOT / "group_vars" / "all").glob("*.yml"):
        for one in yaml.safe_load(path.read_text(encoding="utf-8")).values():
            presets |= set(one) if isinstance(one, dict) else set()
    pages = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("settings.md", "presets.md"))
    for rest in rows("Presets").values():
        for one in names(rest):
            word = one.partition(":")[0].partition(".")[0].removesuffix("*")
            if word not in ("fms", "matbenchmarking"):
                assert word in presets or word in pages, one
