# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clusters a run acquires: one for both hosts unless an inventory gives them their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_targets
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load
from hypothesis import given
from hypothesis import strategies as st

REHEARSAL = {"cluster_provider": "rehearsal", "cluster_kubeconfig": ""}
WORDS = st.text("abc", max_size=2)
CHOICE = st.dictionaries(st.sampled_from(cluster_targets.CHOOSING), WORDS.filter(bool))


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


def test_without_hosts_one_cluster_is_for_both() -> None:
    assert cluster_targets.targets(REHEARSAL, {}) == [
        cluster_targets.ClusterTarget(("sutest", "driver"), {"cluster_provider": "rehearsal"})
    ]


def test_hosts_without_a_choice_of_their_own_share_the_cluster() -> None:
    assert [one.hosts for one in cluster_targets.targets(REHEARSAL, {"sutest": {}, "driver": {}})] == [
        ("sutest", "driver")
    ]


def test_the_driver_follows_the_measured_cluster_unless_it_has_its_own() -> None:
    lab = {"cluster_provider": "existing", "cluster_kubeconfig": "/lab"}
    assert cluster_targets.targets(REHEARSAL, {"sutest": lab}) == [
        cluster_targets.ClusterTarget(("sutest", "driver"), lab)
    ]
    assert cluster_targets.targets(REHEARSAL, {"sutest": lab, "driver": {}}) == [
        cluster_targets.ClusterTarget(("sutest", "driver"), lab)
    ]


def test_two_kubeconfigs_are_two_clusters() -> None:
    own = {"sutest": {"cluster_kubeconfig": "/a"}, "driver": {"cluster_kubeconfig": "/b"}}
    found = cluster_targets.targets({"cluster_provider": "existing"}, own)
    assert [(one.hosts, one.chosen["cluster_kubeconfig"]) for one in found] == [
        (("sutest",), "/a"),
        (("driver",), "/b"),
    ]
    assert all(one.provider == "existing" for one in found)


def test_another_kubeconfig_does_not_inherit_context_and_host_of_the_first() -> None:
    settings = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": "/a",
        "cluster_context": "x",
        "cluster_expected_host": "h",
    }
    driver = cluster_targets.targets(settings, {"driver": {"cluster_kubeconfig": "/b"}})[1]
    assert driver.chosen == {"cluster_provider": "existing", "cluster_kubeconfig": "/b"}


@given(CHOICE, CHOICE, CHOICE)
def test_every_host_has_exactly_one_cluster_and_two_clusters_differ(common: dict, sutest: dict, driver: dict) -> None:
    found = cluster_targets.targets({"cluster_provider": "rehearsal", **common}, {"sutest": sutest, "driver": driver})
    assert sorted(host for one in found for host in one.hosts) == ["driver", "sutest"]
    assert len({tuple(sorted(one.chosen.items())) for one in found}) == len(found)
    matters = cluster_targets.MATTERS.get(found[0].provider, cluster_targets.CHOOSING)
    assert {name: value for name, value in sutest.items() if name in matters}.items() <= found[0].chosen.items()


def test_a_rehearsal_is_one_cluster_whatever_kubeconfigs_the_hosts_have() -> None:
    """-e cluster_provider=rehearsal in a lab's inventory: nothing of the lab is touched."""
    own = {"sutest": {"cluster_kubeconfig": "/a"}, "driver": {"cluster_kubeconfig": "/b", "cluster_expected_host": "h"}}
    assert cluster_targets.targets(REHEARSAL, own) == [
        cluster_targets.ClusterTarget(("sutest", "driver"), {"cluster_provider": "rehearsal"})
    ]


def test_a_value_that_every_host_has_is_no_choice_of_one_host() -> None:
    host = {"cluster_provider": "existing", "cluster_kubeconfig": "/a", "other": 1}
    assert cluster_targets.own_choice(host, {"cluster_provider": "existing"}) == {"cluster_kubeconfig": "/a"}


def test_an_unknown_provider_names_the_nearest() -> None:
    with pytest.raises(InputError, match="'exsting' is unknown .did you mean 'existing'"):
        cluster_targets.check_provider("exsting", ["existing", "rehearsal"], "cluster")


def test_an_existing_cluster_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even when ~/.kube/config is there."""
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", "https://somewhere:6443")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="needs to be told which cluster"):
        cluster_targets.kubeconfig_of({}, {}, "cluster")


def test_the_setting_goes_before_the_environment(tmp_path: Path) -> None:
    first, second = kubeconfig(tmp_path, "https://a", "a"), kubeconfig(tmp_path, "https://b", "b")
    environment = {"KUBECONFIG": str(second)}
    assert cluster_targets.kubeconfig_of({"cluster_kubeconfig": str(first)}, environment, "cluster") == str(first)
    assert cluster_targets.kubeconfig_of({}, environment, "cluster") == str(second)


def test_a_missing_file_says_where_its_name_came_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cluster_kubeconfig names '/no/such', and there is no file /no/such"):
        cluster_targets.kubeconfig_of({"cluster_kubeconfig": "/no/such"}, {}, "cluster")
    with pytest.raises(InputError, match="the environment variable KUBECONFIG names"):
        cluster_targets.kubeconfig_of({}, {"KUBECONFIG": str(tmp_path / "gone")}, "cluster")


def test_two_files_in_kubeconfig_are_not_guessed_between(tmp_path: Path) -> None:
    first, second = kubeconfig(tmp_path, "https://a", "a"), kubeconfig(tmp_path, "https://b", "b")
    with pytest.raises(InputError, match="names 2 files .*say which with -e cluster_kubeconfig"):
        cluster_targets.kubeconfig_of({}, {"KUBECONFIG": f"{first}:{second}"}, "cluster")
    assert cluster_targets.kubeconfig_of({}, {"KUBECONFIG": f"{tmp_path}/gone:{second}"}, "cluster") == str(second)


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
    cluster_targets.check_host(load(kubeconfig(tmp_path, "https://api.lab.example:6443")), expected)


@pytest.mark.parametrize("expected", ["lab.example", "api.lab.example:443", "http://api.lab.example:6443", "api.lab"])
def test_another_host_is_refused(tmp_path: Path, expected: str) -> None:
    with pytest.raises(InputError, match="nothing was touched"):
        cluster_targets.check_host(load(kubeconfig(tmp_path, "https://api.lab.example:6443")), expected)


def test_an_existing_target_is_checked_before_a_request_is_sent(tmp_path: Path) -> None:
    """Nothing listens at that address, so a request would fail differently."""
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    chosen = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": str(path),
        "cluster_expected_host": "api.lab.example",
    }
    with pytest.raises(InputError, match="cluster_expected_host is 'api.lab.example'"):
        cluster_targets.check_existing(cluster_targets.ClusterTarget(("sutest", "driver"), chosen), {})
    found = cluster_targets.check_existing(
        cluster_targets.ClusterTarget(("sutest",), {**chosen, "cluster_expected_host": "127.0.0.1"}), {}
    )
    assert found == {"kubeconfig": str(path), "context": "", "api_host": "127.0.0.1:1"}


def test_providers_are_the_folders_that_can_acquire(tmp_path: Path) -> None:
    for name in ("one", "two", "helpers"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "acquire.yml").touch()
    assert cluster_targets.providers_in(tmp_path) == ["one", "two"]


def test_a_driver_with_settings_of_its_own_gets_a_cluster_of_its_own_of_the_same_provider() -> None:
    common = {"cluster_provider": "openshift_ipi", "cluster_ipi_compute_count": 4, "cluster_tags": {"Project": "x"}}
    found = cluster_targets.targets(common, {"driver": {"cluster_ipi_compute_count": 1, "cluster_agent_dns": ["x"]}})
    assert [(one.hosts, one.chosen["cluster_ipi_compute_count"]) for one in found] == [
        (("sutest",), 4),
        (("driver",), 1),
    ]
    assert all("cluster_agent_dns" not in one.chosen and one.chosen["cluster_tags"] for one in found)
    assert cluster_targets.names(found, "t1121-k3f9xa") == ["t1121-k3f9xa", "t1121-k3f9xa-driver"]


def test_a_given_name_is_kept_where_there_is_one_cluster_of_it() -> None:
    one = cluster_targets.ClusterTarget(cluster_targets.HOSTS, {"cluster_provider": "managed", "cluster_name": "perf"})
    assert cluster_targets.names([one], "t1121-k3f9xa") == ["perf"]


def test_a_step_that_a_provider_has_is_a_file_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for name in ("acquire", "release", "finish"):
        (tmp_path / "one" / f"{name}.yml").touch()
    assert cluster_targets.steps_of(tmp_path, "one") == ["acquire", "finish", "release"]
