# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An existing cluster: which kubeconfig names it, and whether it is the expected one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import providers
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import ClusterTarget
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access


def kubeconfig(folder: Path, server: str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]
clusters: [{{name: lab, cluster: {{server: "{server}"}}}}]
users: [{{name: lab, user: {{token: t}}}}]
"""
    )
    return path


def test_an_existing_cluster_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even when ~/.kube/config is there."""
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", "https://somewhere:6443")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="requires a kubeconfig: set"):
        providers.explicitly_named_kubeconfig({}, {}, "cluster")


def test_the_setting_goes_before_the_environment(tmp_path: Path) -> None:
    first, second = kubeconfig(tmp_path, "https://a", "a"), kubeconfig(tmp_path, "https://b", "b")
    environment = {"KUBECONFIG": str(second)}
    assert providers.explicitly_named_kubeconfig({"cluster_kubeconfig": str(first)}, environment, "cluster") == str(
        first
    )
    assert providers.explicitly_named_kubeconfig({}, environment, "cluster") == str(second)


def test_a_missing_file_says_where_its_name_came_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cluster_kubeconfig names '/no/such', and there is no file /no/such"):
        providers.explicitly_named_kubeconfig({"cluster_kubeconfig": "/no/such"}, {}, "cluster")
    with pytest.raises(InputError, match="the environment variable KUBECONFIG names"):
        providers.explicitly_named_kubeconfig({}, {"KUBECONFIG": str(tmp_path / "gone")}, "cluster")
    with pytest.raises(InputError, match=r"there is no file \S+ \(it is a folder\)$"):
        providers.explicitly_named_kubeconfig({"cluster_kubeconfig": str(tmp_path)}, {}, "cluster")


def test_two_files_in_kubeconfig_are_not_guessed_between(tmp_path: Path) -> None:
    first, second = kubeconfig(tmp_path, "https://a", "a"), kubeconfig(tmp_path, "https://b", "b")
    with pytest.raises(InputError, match="names 2 files .*choose one with -e cluster_kubeconfig"):
        providers.explicitly_named_kubeconfig({}, {"KUBECONFIG": f"{first}:{second}"}, "cluster")
    assert providers.explicitly_named_kubeconfig({}, {"KUBECONFIG": f"{tmp_path}/gone:{second}"}, "cluster") == str(
        second
    )


@pytest.mark.parametrize(
    "expected",
    [
        "api.lab.example",
        "API.lab.example",
        "api.lab.example:6443",
        "https://api.lab.example:6443",
        "https://api.lab.example:6443/",
    ],
)
def test_the_expected_host_may_be_written_in_any_usual_way(tmp_path: Path, expected: str) -> None:
    providers.check_api_host(load_context_access(kubeconfig(tmp_path, "https://api.lab.example:6443")), expected)


@pytest.mark.parametrize("expected", ["lab.example", "api.lab.example:443", "http://api.lab.example:6443", "api.lab"])
def test_another_host_is_refused(tmp_path: Path, expected: str) -> None:
    with pytest.raises(InputError, match="cluster_expected_host is .* leads to https://"):
        providers.check_api_host(load_context_access(kubeconfig(tmp_path, "https://api.lab.example:6443")), expected)


def test_an_existing_target_is_checked_before_a_request_is_sent(tmp_path: Path) -> None:
    """Nothing listens at that address, so a request would fail differently."""
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    chosen = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": str(path),
        "cluster_expected_host": "api.lab.example",
    }
    with pytest.raises(InputError, match="cluster_expected_host is 'api.lab.example'"):
        providers.verified_existing_cluster_access(ClusterTarget(("sutest", "driver"), chosen), {})
    found = providers.verified_existing_cluster_access(
        ClusterTarget(("sutest",), {**chosen, "cluster_expected_host": "127.0.0.1"}), {}
    )
    assert found == {"kubeconfig": str(path), "context": "", "api_host": "127.0.0.1:1"}
