# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every provider is a class, a folder of role cluster, and an entry of the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import providers
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import (
    ClusterProvider,
    ClusterTarget,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import PROVIDERS, provider_by_name

ROOT = Path(__file__).parents[5]
TASKS = ROOT / "roles" / "cluster" / "tasks"
OWNERSHIP = {"owner": "ann", "purpose": "a test", "taken": "2026-11-21T05:00:00.000Z", "expires": None}
CREATING = ("openshift_ipi", "openshift_agent", "managed", "hive_pool")


def test_each_provider_has_a_folder_and_each_provider_class_is_in_the_table() -> None:
    assert sorted(path.parent.name for path in TASKS.glob("*/acquire.yml")) == sorted(PROVIDERS)
    classes = [one for one in vars(providers).values() if isinstance(one, type) and issubclass(one, ClusterProvider)]
    assert {one.name for one in classes if one.name} == set(PROVIDERS)


@pytest.mark.parametrize("name", CREATING)
def test_a_cluster_that_is_created_is_owned_and_its_settings_are_kept_for_the_release(name: str) -> None:
    chosen = {"cluster_provider": name, "cluster_name": "perf", "cluster_version": "4.19.9"}
    provider = provider_by_name(name)
    target = ClusterTarget(("sutest",), chosen)
    record = provider.initial_record(target, provider.cluster_name(target, "t1-abcdef"), OWNERSHIP)
    assert provider.creates and record == {
        "provider": name,
        "name": "perf",
        "owned": True,
        **OWNERSHIP,
        "provider_data": {"settings": {"cluster_version": "4.19.9"}},
    }


@pytest.mark.parametrize("name", CREATING)
def test_a_failed_cluster_must_be_released_before_another_is_created(name: str) -> None:
    provider = provider_by_name(name)
    provider.refuse_unfinished({}, "/run")
    with pytest.raises(OwnershipError, match=r"""perf failed \(no quota\): release it .*{"run_dir": "/run"}'"""):
        provider.refuse_unfinished({"provider": name, "name": "perf", "state": "failed", "failure": "no quota"}, "/run")


def test_machines_that_were_not_booted_can_not_be_continued() -> None:
    record = {"provider": "openshift_agent", "name": "perf", "state": "acquiring", "provider_data": {"machines": [1]}}
    with pytest.raises(OwnershipError, match="perf was interrupted before its machines were booted"):
        provider_by_name("openshift_agent").refuse_unfinished(record, "/run")
    record["provider_data"] = {"machines": [1], "booted": True}
    provider_by_name("openshift_agent").refuse_unfinished(record, "/run")
    provider_by_name("openshift_ipi").refuse_unfinished({**record, "provider_data": {"machines": [1]}}, "/run")


def test_a_rehearsal_has_the_name_of_its_instance_else_of_the_run() -> None:
    rehearsal = provider_by_name("rehearsal")
    named = ClusterTarget(("sutest",), {"cluster_provider": "rehearsal", "rehearsal_name": "second"})
    assert rehearsal.cluster_name(named, "t1-abcdef") == "second"
    assert rehearsal.cluster_name(ClusterTarget(("sutest",), {}), "t1-abcdef") == "t1-abcdef"
    record = rehearsal.initial_record(named, "second", OWNERSHIP)
    assert record["simulated"] and record["simulated_writers"] == ["node"] and not rehearsal.creates
