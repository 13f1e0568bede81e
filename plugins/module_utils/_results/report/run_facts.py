# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metadata of a run for its report: settings, phases, clusters, environment, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text


def settings(provenance: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, str]]:
    """Return name, value, source and replaced values of each setting that differs from its default."""
    rows = []
    for name, written in sorted(provenance.items()):
        writes = [one for one in written if one.get("source") != "default"]
        if not writes:
            continue
        last = writes[-1]
        known = [one["value"] for one in written if one.get("source") == "default"]
        if known and known[0] == last.get("value"):
            continue
        before = [f"{setting_text(one.get('value'), 40)} ({one.get('source')})" for one in written[:-1]]
        rows.append(
            {
                "name": name,
                "value": setting_text(last.get("value")),
                "source": str(last.get("source") or ""),
                "where": _short(str(last.get("where") or "")),
                "before": ", ".join(before),
            }
        )
    return rows


def _short(where: str) -> str:
    """Return the last two parts of a path, since a report must not contain the paths of a machine."""
    return "/".join(where.split("/")[-2:])


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def between(started: Any, ended: Any) -> str:
    """Return the duration between two timestamps as text, empty if one is missing."""
    first, last = _moment(started), _moment(ended)
    return formats.seconds((last - first).total_seconds()) if first and last else ""


def when(record: Mapping[str, Any]) -> str:
    """Return the start of the run as text, empty if it is unknown."""
    moment = _moment(record.get("started"))
    return moment.strftime("%d %B %Y, %H:%M UTC").lstrip("0") if moment else ""


def phases(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per phase: status, duration in seconds and as text, share of the longest in percent."""
    rows = []
    for name, phase in (of.get("phases") or {}).items():
        spent = phase.get("seconds")
        rows.append(
            {
                "name": name,
                "status": phase.get("status") or "unknown",
                "seconds": float(spent or 0),
                "text": formats.seconds(spent) if spent is not None else "",
                "error": phase.get("error") or "",
            }
        )
    longest = max((row["seconds"] for row in rows), default=0) or 1
    for row in rows:
        row["share"] = round(100 * row["seconds"] / longest, 1)
    return rows


def plain(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) pairs of the environment."""
    hidden = ("interpreter",)  # a path of this machine
    labels = {key: key.replace("_gib", " (GiB)").replace("cpus", "CPUs").replace("_", " ") for key in values}
    return [(labels[key], setting_text(value)) for key, value in values.items() if key not in hidden]


def clusters(clusters: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each distinct cluster with the inventory hosts that use it."""
    hosts: list[tuple[list[str], Mapping[str, Any]]] = []
    for host, cluster in clusters.items():
        same = next((names for names, other in hosts if other == cluster), None)
        if same is not None:
            same.append(host)
        else:
            hosts.append(([host], cluster))
    return [{"host": formats.joined(names) if len(hosts) > 1 else "", "facts": _cluster(one)} for names, one in hosts]


def _cluster(cluster: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = {
        "provider": "provider",
        "api_host": "API server",
        "version": "Kubernetes",
        "openshift": "OpenShift",
        "nodes": "nodes",
        "gpus": "GPUs",
        "kind": "kind",
    }
    items = [(text, str(cluster[key])) for key, text in names.items() if cluster.get(key) not in (None, "")]
    products = cluster.get("gpu_products") or {}
    if products:
        items.append(("GPU products", ", ".join(f"{count} × {name}" for name, count in products.items())))
    writers = ", ".join(cluster.get("simulated_writers") or [])
    writers += f", except on {', '.join(cluster['real_nodes'])}" if writers and cluster.get("real_nodes") else ""
    items.append(("simulated", f"yes: {writers}" if writers else "yes" if cluster.get("simulated") else "no"))
    return items


def record(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) pairs of the record of the run."""
    git = record.get("git") or {}
    revision = str(git.get("revision") or "")
    items = [
        ("run id", str(record.get("id") or "")),
        ("status", str(record.get("status") or "")),
        ("started", str(record.get("started") or "")),
        ("ended", str(record.get("ended") or "")),
        ("command", str(record.get("command") or "")),
        ("revision", f"{revision[:12]}{' with local changes' if git.get('dirty') else ''}" if revision else ""),
    ]
    return [(key, value) for key, value in items if value]
