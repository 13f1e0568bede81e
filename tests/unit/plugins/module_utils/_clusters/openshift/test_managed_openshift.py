# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenShift Cluster Manager sends. Its tools: tests/integration/test_managed.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift.managed_openshift import (
    ManagedClusterTools,
)

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never"}


def fetched_kubeconfig(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], cluster: dict[str, Any]
) -> Path:
    """Fetch a kubeconfig with these entries, as ocm prints it; return its file."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    printed = json.dumps({"kubeconfig": json.dumps(document)})
    monkeypatch.setattr(ManagedClusterTools, "_call", lambda *_all: printed)
    tools = ManagedClusterTools("osd", "perf", "t1121-k3f9xa", folder / "perf", {})
    return Path(tools.kubeconfig({"id": "1"}))


def test_the_kubeconfig_of_a_server_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetched_kubeconfig(tmp_path, monkeypatch, {"token": "t"}, {"certificate-authority-data": "YQ=="})
    assert json.loads(path.read_text(encoding="utf-8"))["users"][0]["user"] == {"token": "t"}


@pytest.mark.parametrize(
    ("user", "cluster", "named"),
    [
        ({"exec": EXEC}, {}, "exec"),
        ({"token": "t", "exec": EXEC}, {}, "exec"),
        ({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}}, {}, "auth-provider"),
        ({"tokenFile": "/home/me/.ssh/id_ed25519"}, {}, "tokenFile"),
        ({"client-certificate": "/tmp/c", "client-key": "/tmp/k"}, {}, "client-certificate"),
        ({"token": "t"}, {"certificate-authority": "/tmp/ca"}, "certificate-authority"),
    ],
)
def test_a_server_names_no_program_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], cluster: dict[str, Any], named: str
) -> None:
    with pytest.raises(AccessError, match=f"cluster perf: the kubeconfig of the server: '{named}' names a program or"):
        fetched_kubeconfig(tmp_path, monkeypatch, user, cluster)
    assert list((tmp_path / "perf").iterdir()) == []
    ours = fetched_kubeconfig(tmp_path, monkeypatch, {"token": "t"}, {})
    before = ours.read_bytes()
    with pytest.raises(AccessError):
        fetched_kubeconfig(tmp_path, monkeypatch, user, cluster)
    assert ours.read_bytes() == before and list((tmp_path / "perf").iterdir()) == [ours]
