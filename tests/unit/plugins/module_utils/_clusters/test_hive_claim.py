# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hub cluster sends as the kubeconfig of a claimed cluster is kept only if it names nothing of this machine."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import hive_claim

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never"}


def save(path: Path, user: dict[str, Any]) -> dict[str, Any]:
    """Save the kubeconfig of a claimed cluster whose hub sends it with this user."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    reference = {"clusterMetadata": {"adminKubeconfigSecretRef": {"name": "admin"}}}
    objects = {
        "ClusterDeployment": {"spec": reference},
        "Secret": {"data": {"kubeconfig": base64.b64encode(json.dumps(document).encode()).decode()}},
    }
    client = SimpleNamespace(kind=lambda _version, kind: kind, get=lambda kind, _name, _namespace: objects[kind])
    claim = {"metadata": {}, "spec": {"namespace": "pool-abc"}}
    return hive_claim._save_claimed_cluster(client, hive_claim.ClaimSpec("c", "ns", "p", "r"), claim, path)


def test_the_kubeconfig_of_a_claimed_cluster_names_no_program(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    assert save(path, {"token": "t"}) == {"kubeconfig": str(path), "deployment": "pool-abc"}
    before = path.read_bytes()
    with pytest.raises(AccessError, match="ClusterDeployment pool-abc: its kubeconfig: 'exec' names a program"):
        save(path, {"exec": EXEC})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "deployment",
    [
        {"spec": []},
        {"spec": {"clusterMetadata": 5}},
        {"spec": {"clusterMetadata": {"adminKubeconfigSecretRef": []}}},
        {"spec": {"clusterMetadata": {"adminKubeconfigSecretRef": {"name": {}}}}},
        {},
    ],
)
def test_a_deployment_of_another_form_has_no_kubeconfig(tmp_path: Path, deployment: dict[str, Any]) -> None:
    objects = {"ClusterDeployment": deployment, "Secret": {"data": []}}
    client: Any = SimpleNamespace(kind=lambda _version, kind: kind, get=lambda kind, *_place: objects[kind])
    claim = {"metadata": {}, "spec": {"namespace": "pool-abc"}}
    with pytest.raises(DataError, match="ClusterDeployment pool-abc has no secret with a kubeconfig"):
        hive_claim._save_claimed_cluster(client, hive_claim.ClaimSpec("c", "ns", "p", "r"), claim, tmp_path / "k")


@pytest.mark.parametrize("namespace", [[], 5, {"a": 1}])
def test_a_claim_of_another_form_is_named(tmp_path: Path, namespace: Any) -> None:
    claim = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"namespace": namespace or [1]},
        "status": {"conditions": [{"type": "ClusterRunning", "status": "True"}]},
    }

    def get(kind: str, *place: str) -> dict[str, Any]:
        return claim if kind == "ClusterClaim" else {} if all(part + "" for part in place) else {}

    client: Any = SimpleNamespace(kind=lambda _version, kind: kind, get=get)
    with pytest.raises(DataError, match="ClusterClaim ns/c: the answer has an unexpected form"):
        hive_claim.wait_for_claimed_cluster(
            client, hive_claim.ClaimSpec("c", "ns", "p", "r", timeout=1.0), tmp_path / "k", lambda _text: None
        )
