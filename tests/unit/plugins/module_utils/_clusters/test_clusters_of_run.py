# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clusters a run acquires: one for both hosts unless an inventory gives them different settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import ClusterTarget
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import PROVIDERS
from hypothesis import given
from hypothesis import strategies as st

REHEARSAL = {"cluster_provider": "rehearsal", "cluster_kubeconfig": ""}
WORDS = st.text("abc", min_size=1, max_size=2)
TEXTS = ("cluster_kubeconfig", "cluster_context", "cluster_expected_host", "rehearsal_name")
CHOICE = st.fixed_dictionaries(
    {}, optional={"cluster_provider": st.sampled_from(list(PROVIDERS)), **dict.fromkeys(TEXTS, WORDS)}
)


def test_without_hosts_one_cluster_is_for_both() -> None:
    assert clusters_of_run.clusters_to_acquire(REHEARSAL, {}) == [
        ClusterTarget(("sutest", "driver"), {"cluster_provider": "rehearsal"})
    ]


def test_workers_are_further_clusters_with_names_of_their_own() -> None:
    found = clusters_of_run.clusters_to_acquire({**REHEARSAL, "cluster_workers": 2}, {})
    assert [one.hosts for one in found] == [("sutest", "driver"), ("worker-1",), ("worker-2",)]
    assert clusters_of_run.assign_cluster_names(found, "r1") == ["r1", "r1-worker-1", "r1-worker-2"]
    named = clusters_of_run.clusters_to_acquire({**REHEARSAL, "cluster_workers": 1, "rehearsal_name": "mine"}, {})
    assert clusters_of_run.assign_cluster_names(named, "r1") == ["mine", "mine-worker-1"]


def test_hosts_without_a_choice_of_their_own_share_the_cluster() -> None:
    assert [one.hosts for one in clusters_of_run.clusters_to_acquire(REHEARSAL, {"sutest": {}, "driver": {}})] == [
        ("sutest", "driver")
    ]


def test_the_driver_follows_the_measured_cluster_unless_it_has_its_own() -> None:
    lab = {"cluster_provider": "existing", "cluster_kubeconfig": "/lab"}
    assert clusters_of_run.clusters_to_acquire(REHEARSAL, {"sutest": lab}) == [ClusterTarget(("sutest", "driver"), lab)]
    assert clusters_of_run.clusters_to_acquire(REHEARSAL, {"sutest": lab, "driver": {}}) == [
        ClusterTarget(("sutest", "driver"), lab)
    ]


def test_two_kubeconfigs_are_two_clusters() -> None:
    own = {"sutest": {"cluster_kubeconfig": "/a"}, "driver": {"cluster_kubeconfig": "/b"}}
    found = clusters_of_run.clusters_to_acquire({"cluster_provider": "existing"}, own)
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
    driver = clusters_of_run.clusters_to_acquire(settings, {"driver": {"cluster_kubeconfig": "/b"}})[1]
    assert driver.chosen == {"cluster_provider": "existing", "cluster_kubeconfig": "/b"}


@given(CHOICE, CHOICE, CHOICE)
def test_every_host_has_exactly_one_cluster_and_two_clusters_differ(common: dict, sutest: dict, driver: dict) -> None:
    found = clusters_of_run.clusters_to_acquire(
        {"cluster_provider": "rehearsal", **common}, {"sutest": sutest, "driver": driver}
    )
    assert sorted(host for one in found for host in one.hosts) == ["driver", "sutest"]
    assert len({tuple(sorted(one.chosen.items())) for one in found}) == len(found)
    settings = PROVIDERS[found[0].provider].settings
    assert {name: value for name, value in sutest.items() if name in settings}.items() <= found[0].chosen.items()


def test_a_rehearsal_is_one_cluster_whatever_kubeconfigs_the_hosts_have() -> None:
    """-e cluster_provider=rehearsal in a lab's inventory: nothing of the lab is touched."""
    own = {"sutest": {"cluster_kubeconfig": "/a"}, "driver": {"cluster_kubeconfig": "/b", "cluster_expected_host": "h"}}
    assert clusters_of_run.clusters_to_acquire(REHEARSAL, own) == [
        ClusterTarget(("sutest", "driver"), {"cluster_provider": "rehearsal"})
    ]


def test_a_value_that_every_host_has_is_no_choice_of_one_host() -> None:
    host = {"cluster_provider": "existing", "cluster_kubeconfig": "/a", "other": 1}
    assert clusters_of_run.host_specific_settings(host, {"cluster_provider": "existing"}) == {
        "cluster_kubeconfig": "/a"
    }


def test_a_driver_with_settings_of_its_own_gets_a_cluster_of_its_own_of_the_same_provider() -> None:
    common = {"cluster_provider": "openshift_ipi", "cluster_ipi_compute_count": 4, "cluster_tags": {"Project": "x"}}
    found = clusters_of_run.clusters_to_acquire(
        common, {"driver": {"cluster_ipi_compute_count": 1, "cluster_agent_dns": ["x"]}}
    )
    assert [(one.hosts, one.chosen["cluster_ipi_compute_count"]) for one in found] == [
        (("sutest",), 4),
        (("driver",), 1),
    ]
    assert all("cluster_agent_dns" not in one.chosen and one.chosen["cluster_tags"] for one in found)
    assert clusters_of_run.assign_cluster_names(found, "t1121-k3f9xa") == ["t1121-k3f9xa", "t1121-k3f9xa-driver"]


def test_a_given_name_is_kept_where_there_is_one_cluster_of_it() -> None:
    one = ClusterTarget(clusters_of_run.HOSTS, {"cluster_provider": "managed", "cluster_name": "perf"})
    assert clusters_of_run.assign_cluster_names([one], "t1121-k3f9xa") == ["perf"]


def test_a_step_that_a_provider_has_is_a_file_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for name in ("acquire", "release", "finish"):
        (tmp_path / "one" / f"{name}.yml").touch()
    assert clusters_of_run.steps_of_provider(tmp_path, "one") == ["acquire", "finish", "release"]


def test_an_unknown_provider_names_the_nearest() -> None:
    with pytest.raises(InputError, match="cluster for sutest: cluster_provider 'exsting' is unknown .did you mean 'ex"):
        clusters_of_run.clusters_to_acquire({"cluster_provider": "exsting"}, {})


BOTH = ("sutest", "driver")
OURS = {"provider": "rehearsal", "name": "t1121-abcdef"}


def test_a_cluster_stands_in_the_file_before_it_is_taken(tmp_path: Path) -> None:
    records, changed = clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert changed and records["sutest"]["state"] == "acquiring" and records["driver"]["name"] == "t1121-abcdef"
    assert files.read_yaml(tmp_path / "cluster.yml")["clusters"] == records


def test_taking_the_same_cluster_again_keeps_what_is_known(tmp_path: Path) -> None:
    clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    clusters_of_run.update_host_records(tmp_path, BOTH, {"state": "acquired", "owned": True, "kubeconfig": "/k"})
    records, changed = clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert not changed and records["sutest"]["state"] == "acquired" and records["sutest"]["owned"]


def test_another_cluster_is_refused_while_one_is_held(tmp_path: Path) -> None:
    clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    clusters_of_run.update_host_records(tmp_path, BOTH, {"state": "acquired", "owned": True})
    with pytest.raises(OwnershipError, match="already holds rehearsal cluster t1121-abcdef for sutest: release it"):
        clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, {"provider": "existing", "kubeconfig": "/k"})


def test_after_a_release_another_cluster_may_be_taken_and_nothing_of_the_old_one_is_left(tmp_path: Path) -> None:
    clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    clusters_of_run.update_host_records(tmp_path, BOTH, {"state": "released", "played_logs": "/p", "gpus": 3})
    records, _changed = clusters_of_run.record_cluster_being_acquired(
        tmp_path, BOTH, {"provider": "existing", "kubeconfig": "/k"}
    )
    assert records["sutest"] == {
        "owned": False,
        "simulated": False,
        "simulated_writers": [],
        "provider": "existing",
        "kubeconfig": "/k",
        "state": "acquiring",
    }


def test_each_cluster_is_named_once(tmp_path: Path) -> None:
    clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert [
        one["hosts"]
        for one in clusters_of_run.distinct_clusters_with_hosts(clusters_of_run.read_cluster_records(tmp_path))
    ] == [["sutest", "driver"]]
    clusters_of_run.update_host_records(tmp_path, ["driver"], {"name": "other"})
    assert [
        one["hosts"]
        for one in clusters_of_run.distinct_clusters_with_hosts(clusters_of_run.read_cluster_records(tmp_path))
    ] == [
        ["sutest"],
        ["driver"],
    ]


def test_writing_what_is_there_already_is_no_change(tmp_path: Path) -> None:
    clusters_of_run.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert clusters_of_run.update_host_records(tmp_path, BOTH, {"state": "acquiring"})[1] is False
    assert clusters_of_run.update_host_records(tmp_path, BOTH, {"state": "acquired"})[1] is True


def test_a_run_without_a_cluster_has_no_record(tmp_path: Path) -> None:
    assert (
        clusters_of_run.read_cluster_records(tmp_path) == {} and clusters_of_run.distinct_clusters_with_hosts({}) == []
    )


def test_a_cluster_of_another_machine_is_taken_over_to_be_given_back(tmp_path: Path) -> None:
    settings = {"settings": {"cluster_ipi_region": "us-east-2"}}
    kept = {"hosts": ["sutest"], "provider": "openshift_ipi", "name": "perf", "owned": True, "steps": ["acquire"]}
    records, changed = clusters_of_run.record_cluster_taken_over(
        tmp_path, {**kept, "provider_data": settings, "metadata": {"infraID": "perf-abcde"}}
    )
    assert changed and list(records) == ["sutest"] and records["sutest"]["state"] == "acquiring"
    assert records["sutest"]["owned"] and records["sutest"]["provider_data"]["metadata"] == {"infraID": "perf-abcde"}


@pytest.mark.parametrize("record", [{}, {"provider": "kubeconfig"}, {"state": "acquired"}])
def test_a_record_that_does_not_say_what_is_held_is_damaged(tmp_path: Path, record: dict[str, str]) -> None:
    document = {"schema": "cluster/2", "clusters": {"sutest": record}}
    (tmp_path / clusters_of_run.FILE).write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"cluster.yml is damaged: the record of sutest has no provider or no state"):
        clusters_of_run.read_cluster_records(tmp_path)
