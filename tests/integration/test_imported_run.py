# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of TOPSAIL is imported into the inventory of a lab, and its presets train TrainJobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import play, run_dirs

SETTINGS = "tests.fine_tuning.test_settings"
CONFIG: dict[str, Any] = {
    "ci_presets": {
        "names": None,
        "fms": {
            "tests.fine_tuning.fms.enabled": True,
            f"{SETTINGS}.hyper_parameters": {"r": None, "max_seq_length": None, "peft_method": None},
        },
        "two_pods": {
            "extends": ["fms"],
            "tests.fine_tuning.matbenchmarking.enabled": True,
            f"{SETTINGS}.pod_count": 2,
            f"{SETTINGS}.hyper_parameters.max_seq_length": [128, 256],
        },
    },
    "fine_tuning": {
        "pvc": {"name": "storage", "size": "1Gi", "access_mode": "ReadWriteOnce", "storage_class_name": None},
        "model_registry": "hf",
        "sources": {
            "tiny.json": {"type": "dataset", "source_dir": "https://example.com", "response_template": "### Response:"},
            "hf": {"type": "model-registry", "source_dir": "https://huggingface.co/"},
        },
    },
    "tests": {
        "fine_tuning": {
            "namespace": "tuning",
            "matbenchmarking": {"enabled": False, "stop_on_error": True},
            "test_settings": {
                "name": "fine-tuning",
                "pod_count": 1,
                "model_name": "org/small@hf",
                "dataset_name": "tiny.json",
                "gpu": 1,
                "dataset_replication": 1,
                "container_image": None,
                "hyper_parameters": {},
            },
            "fms": {"enabled": False, "image": "example.com/fms:1"},
            "ilab": {"enabled": False, "image": None},
            "ray": {"enabled": False, "image": None},
        }
    },
}


@pytest.mark.long
def test_an_imported_preset_trains_train_jobs(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    (lab / "group_vars" / "my_lab").mkdir(parents=True)
    host = {"localhost": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}}
    (lab / "hosts.yml").write_text(yaml.safe_dump({"my_lab": {"hosts": host}}), encoding="utf-8")
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    written = lab / "group_vars" / "my_lab" / "topsail.yml"
    words = ["-e", f"topsail_config={config}", "-e", f"topsail_to={written}"]
    done = play(*words, artifacts=tmp_path / "none", project="import_topsail")
    assert done.code == 0 and "2 presets imported" in done.output, done.output

    artifacts = tmp_path / "artifacts"
    short = json.dumps({"fake_gpu_nodes": 2, "fine_tuning_run_seconds": 2, "workload_max_lateness": 60})
    words = ["-i", str(lab / "hosts.yml"), "-e", "preset=topsail_two_pods", "-e", short]
    done = play(*words, artifacts=artifacts, timeout=900)
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(artifacts)
    assert files.read_json(run_dir / "verdict.json")["verdict"] == "pass"
    lengths = set()
    for point in sorted((run_dir / "points").iterdir()):
        settings = yaml.safe_load((point / "settings.yml").read_text(encoding="utf-8"))
        assert settings["fine_tuning_api"] == "trainjob"
        lengths.add(settings["fine_tuning_hyper_parameters"]["max_seq_length"])
        plan = (point / "plan.jsonl").read_text(encoding="utf-8")
        assert '"TrainJob"' in plan and "PyTorchJob" not in plan
        observed = (point / "observations.jsonl").read_text(encoding="utf-8")
        assert '"TrainJob"' in observed and '"JobSet"' in observed
    assert lengths == {128, 256}
