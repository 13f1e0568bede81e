# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of an earlier session is reached by the kubeconfig that is given now, and only that cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import providers

HOST = "api.lab.example"


def kubeconfig(path: Path, host: str = HOST, context: str = "lab") -> str:
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: {context}
contexts: [{{name: {context}, context: {{cluster: lab, user: lab}}}}]
clusters: [{{name: lab, cluster: {{server: "https://{host}:6443"}}}}]
users: [{{name: lab, user: {{token: t}}}}]
"""
    )
    return str(path)


def test_the_first_that_leads_to_the_cluster_of_the_run_is_taken(tmp_path: Path) -> None:
    known = {"kubeconfig": "/gone", "context": "", "api_host": HOST}
    paths = ["", "/gone", kubeconfig(tmp_path / "a", "another.example"), kubeconfig(tmp_path / "b")]
    assert providers.first_usable_kubeconfig(known, paths) == {"kubeconfig": str(tmp_path / "b"), "context": ""}
    assert providers.first_usable_kubeconfig(known, paths[:3]) is None
    with pytest.raises(InputError, match="leads to https://another.example.*run is at api.lab.example: nothing"):
        providers.raise_wrong_cluster_error(known, paths[2])


def test_a_context_that_the_new_file_does_not_have_is_not_insisted_on(tmp_path: Path) -> None:
    known = {"kubeconfig": "/gone", "context": "old", "api_host": HOST}
    path = kubeconfig(tmp_path / "a", context="new")
    assert providers.first_usable_kubeconfig(known, [path]) == {"kubeconfig": path, "context": ""}
    assert providers.first_usable_kubeconfig(known, [kubeconfig(tmp_path / "b", context="old")]) == {
        "kubeconfig": str(tmp_path / "b"),
        "context": "old",
    }


def test_a_path_is_gone_when_it_can_not_be_read(tmp_path: Path) -> None:
    assert providers.is_kubeconfig_unreadable(str(tmp_path / "none"))
    assert not providers.is_kubeconfig_unreadable(
        kubeconfig(tmp_path / "a")
    ) and not providers.is_kubeconfig_unreadable("in-cluster")
