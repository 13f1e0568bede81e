# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run holds, from its files: whatever no server has said to be gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.providers import provider_of
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run_directory import read_optional


def of(run_dir: Path, since: str) -> list[dict[str, Any]]:
    """Return what the run in ``run_dir`` holds, as run.yml lists it. since: when the run began."""
    return held(
        cluster_record.read(run_dir),
        read_optional(run_dir / "lease.yml"),
        read_optional(run_dir / "scaling.json"),
        since,
    )


def held(
    records: Mapping[str, dict[str, Any]], lease: Mapping[str, Any], scaling: Mapping[str, Any], since: str
) -> list[dict[str, Any]]:
    """Return clusters that are the run's or may be, its objects on those of others, scaled nodes, leased machines."""
    found: list[dict[str, Any]] = []

    def add(what: str, until: str | None = None, ends: str = "") -> None:
        if what not in [one["what"] for one in found]:
            found.append({"what": what, "since": since, "until": until, **({"ends": ends} if ends else {})})

    for one in cluster_record.distinct(records):
        cluster = one["record"]
        name = str(cluster.get("name") or cluster.get("api_host") or cluster["provider"])
        if cluster_record.may_be_ours(cluster):
            add(
                f"{cluster['provider']} cluster {name}",
                cluster.get("expires"),
                provider_of(cluster["provider"]).expires_by,
            )
        elif cluster.get("objects") and not cluster["owned"]:
            add(f"objects on cluster {name}")
    measured = records.get("sutest", {})
    if not (measured.get("owned") and measured.get("state") == "released"):
        for part, text in (("sets", "scaled MachineSet"), ("namespaces", "namespace with nodes of its own:")):
            for entry in scaling.get(part) or ():
                add(f"{text} {entry['name']}")
    if lease and lease["state"] in ("asking", "held"):
        clouds = ", ".join(part["cloud"] for part in lease["parts"]) or "nothing that is known"
        what = f"lease {lease['lease_id']}: {len(lease['hosts'])} machines in {clouds}"
        add(what, lease["expires_at"], "the lab takes them back")
    return found
