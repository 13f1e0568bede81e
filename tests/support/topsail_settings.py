# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of TOPSAIL, and the settings that it becomes."""

from __future__ import annotations

import copy
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_topsail_presets
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    phase_preconditions,
    resolve_settings,
    setting_templates,
    settings_catalogue,
    settings_from_ansible,
)

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


def preset(**keys: Any) -> dict[str, Any]:
    """A configuration with preset p, which assigns these keys of the test settings."""
    assigned = {f"{SETTINGS}.{key}": value for key, value in keys.items()}
    return changed(GATING, ci_presets={"p": {"extends": ["fms"], **assigned}})


MATRIX = {"tests.fine_tuning.matbenchmarking.enabled": True}
