"""Models and datasets by ``name@registry``, from real servers of each kind to a volume, in a whole run that trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pod_servers
import pytest
import rehearsal as support
import servers
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from playbook import play, run_dirs

TOKEN = "hub-token-9c2e"
SITE = "site.default.svc.cluster.local"

LACKING = suite_prerequisites.real_node_lacks()


@pytest.mark.long
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_models_of_three_kinds_of_registries_are_downloaded_once_and_trained(own_instance: Any, tmp_path: Path) -> None:
    options = own_instance("sources", components=["training-image", "trainer", "registry"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    crt, key = servers.certificate(tmp_path, SITE)
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        s3 = pod_servers.s3(client, "mkdir -p /tmp/s3/lab/tuned; cp -r /opt/seatrial/tiny-llama /tmp/s3/lab/tuned")
        hub = pod_servers.hub(client, TOKEN)
        address = pod_servers.site(client, crt, key)
        client.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "site",
                    "namespace": "default",
                    "labels": {"kubernetes.io/service-name": "site"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address]}],
                "ports": [],
            }
        )
        settings = {
            "rehearsal_data_dir": options.data_dir,
            "rehearsal_name": options.name,
            "fine_tuning_image": pod_servers.IMAGE,
            "fine_tuning_dataset_name": "tiny-text.jsonl@files",
            "fine_tuning_hyper_parameters.max_steps": 2,
            "matrix": {"fine_tuning_model_name": ["tiny-llama@lab", "org/tiny@hf"]},
            "storage_registries": {"lab": "s3://lab/tuned", "files": f"https://{SITE}:8443/"},
            "storage_hub_url": hub,
            "storage_s3_endpoint": s3,
            "storage_s3_access_key": servers.S3_KEYS[0],
            "storage_ca_file": str(crt),
        }
        secrets = {"storage_hub_token": TOKEN, "storage_s3_secret_key": servers.S3_KEYS[1]}
        given = json.dumps({"preset": "light_real", "overrides": settings, **secrets})
        done = play("-e", given, artifacts=tmp_path / "runs", timeout=1500)
        assert done.code == 0, done.output
        log = client.text("/api/v1/namespaces/default/pods/hub/log")
    # Each file once, although the model is asked for at a point only.
    served = [line.split()[2] for line in log.splitlines() if line.startswith("served 200 /org/")]
    assert served and sorted(served) == sorted(set(served))
    (run,) = run_dirs(tmp_path / "runs")
    found = {}
    for path in run.glob("*__storage__present/downloads.json"):
        found |= {one["name"]: one for one in files.read_json(path)["downloads"]}
    assert {name: one["source"] for name, one in found.items()} == {
        "tiny-llama": "s3://lab/tuned/tiny-llama",
        "org/tiny": "hf://org/tiny",
        "tiny-text.jsonl": f"https://{SITE}:8443/tiny-text.jsonl",
    }
    assert found["tiny-llama"]["sha256"] == found["org/tiny"]["sha256"]  # the same files
    for number in ("001", "002"):
        (row,) = files.read_json_lines(run / "points" / number / "training.jsonl")
        assert row["error"] is None and row["figures"]["train_runtime"] > 0 and row["simulated"] is False
    for path in run.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert TOKEN.encode() not in text and servers.S3_KEYS[1].encode() not in text, path
