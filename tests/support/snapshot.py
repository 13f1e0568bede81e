"""Everything that is on a cluster, so that a test can say that a run left it as it found it."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, NamedTuple

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._signal_blocking_threads import ThreadPool

#: What comes and goes by itself on every cluster, and says nothing of what a run left.
EXCLUDED = {
    "Event": "they expire by themselves",
    "Lease": "heartbeats",
    "ComponentStatus": "no objects",
    "IPAddress": "one for each Service, made and removed by the API server",
    "PackageManifest": "what catalogs offer, not what is installed",
    "PriorityLevelConfiguration": "the API server's own",
    "FlowSchema": "the API server's own",
}


class Entry(NamedTuple):
    """One object, reduced to the compared parts."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    spec: str


def take(client: Client) -> set[Entry]:
    """Return every object of every kind that can be listed, except those of EXCLUDED kinds."""
    kinds = [one for one in client.kinds() if "list" in one.verbs and one.kind not in EXCLUDED]
    found: set[Entry] = set()
    with ThreadPool(8) as pool:
        for kind, items in zip(kinds, pool.map(lambda kind: _list(client, kind), kinds), strict=True):
            found.update(_entry(kind, item) for item in items or [])
    return found


def settled(client: Client, timeout: float = 60) -> set[Entry]:
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


def left(client: Client, before: set[Entry], timeout: float = 120) -> list[str]:
    """Return the differences from ``before`` once nothing changes any more, or after ``timeout`` seconds.

    OLM takes back some of what it wrote (roles of an OperatorGroup) when it next looks at everything, once a minute.
    """
    deadline = time.monotonic() + timeout
    while (found := differences(before, take(client))) and time.monotonic() < deadline:
        time.sleep(2)
    return found


def _list(client: Client, kind: Kind) -> list[dict[str, Any]]:
    try:
        return client.list(kind)[0]
    except ApiError as error:
        # A definition that was removed between discovery and now.
        if error.status in (404, 405):
            return []
        raise


def _entry(kind: Kind, item: dict[str, Any]) -> Entry:
    meta = item["metadata"]
    # Where a role gathers the rules of others, what it gathers is theirs.
    parts = ("spec", "data", "aggregationRule" if item.get("aggregationRule") else "rules", "roleRef", "subjects")
    # OLM adds kinds to its roles of an OperatorGroup, and does not take them off when their operator goes.
    olms = kind.kind == "ClusterRole" and meta["name"].startswith("olm.og.")
    content = {name: item[name] for name in parts if name in item and not olms}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    group = kind.api_version.rpartition("/")[0]
    return Entry(group, kind.kind, meta.get("namespace") or "", meta["name"], meta["uid"], digest)


def differences(before: set[Entry], after: set[Entry]) -> list[str]:
    """Return deleted and new objects, one line each."""
    gone = [f"- {one}" for one in sorted(before - after)]
    return gone + [f"+ {one}" for one in sorted(after - before)]
