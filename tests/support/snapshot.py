"""Everything that is on a cluster, so that a test can say that a run left it as it found it."""

from __future__ import annotations

import time

from ansible_collections.perfscale.seatrial.plugins.module_utils._care import object_snapshots
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.object_snapshots import ComparedObject
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


def take(client: Client) -> set[ComparedObject]:
    """Return every object, as a run with run_diff does."""
    return set(object_snapshots.snapshot_all_objects(client).entries)


def settled(client: Client, timeout: float = 60) -> set[ComparedObject]:
    """Return the same once controllers are idle: two snapshots, two seconds apart, are equal."""
    deadline = time.monotonic() + timeout
    before = take(client)
    while True:
        time.sleep(2)
        now = take(client)
        if now == before:
            return now
        assert time.monotonic() < deadline, f"still changing: {differences(before, now)[:5]}"
        before = now


def left(client: Client, before: set[ComparedObject], timeout: float = 120) -> list[str]:
    """Return the differences from ``before`` once nothing changes any more, or after ``timeout`` seconds.

    OLM takes back some of what it wrote (roles of an OperatorGroup) when it next looks at everything, once a minute.
    """
    deadline = time.monotonic() + timeout
    while (found := differences(before, take(client))) and time.monotonic() < deadline:
        time.sleep(2)
    return found


def differences(before: set[ComparedObject], after: set[ComparedObject]) -> list[str]:
    """Return deleted and new objects, one line each."""
    gone = [f"- {one}" for one in sorted(before - after)]
    return gone + [f"+ {one}" for one in sorted(after - before)]
