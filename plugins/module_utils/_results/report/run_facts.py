# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report shows of a run beside its points: settings, phases, clusters, images, downloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_setting_value

#: Key of a node in a state -> what is said of nodes that differ in it.
_CHANGES = {
    "schedulable": "cordoned or uncordoned",
    "conditions": "with other conditions",
    "kubelet": "with another kubelet",
    "system": "with another operating system",
    "runtime": "with another container runtime",
    "gpus": "with another number of GPUs",
    "allocatable": "with other allocatable resources",
}
#: Rows of the table of what a run left.
_MOST = 100
#: Names listed in one sentence.
_SOME = 5
#: Digits of a checksum that are shown.
_DIGITS = 12


def non_default_settings(provenance: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, str]]:
    """Return name, value, source and replaced values of each setting that differs from its default."""
    rows = []
    for name, written in sorted(provenance.items()):
        writes = [write for write in written if write.get("source") != "default"]
        if not writes:
            continue
        last = writes[-1]
        known = [write["value"] for write in written if write.get("source") == "default"]
        if known and known[0] == last.get("value"):
            continue
        before = [f"{format_setting_value(write.get('value'), 40)} ({write.get('source')})" for write in written[:-1]]
        rows.append(
            {
                "name": name,
                "value": format_setting_value(last.get("value")),
                "source": str(last.get("source") or ""),
                "where": _shorten_path(str(last.get("where") or "")),
                "before": ", ".join(before),
            }
        )
    return rows


def _shorten_path(where: str) -> str:
    """Return the last two parts of a path, since a report must not contain the paths of a machine."""
    return "/".join(where.split("/")[-2:])


def format_duration_between(started: Any, ended: Any) -> str:
    """Return the duration between two timestamps as text, empty if one is missing."""
    first, last = formats.parse_timestamp(started), formats.parse_timestamp(ended)
    return formats.format_duration((last - first).total_seconds()) if first and last else ""


def format_run_start(record: Mapping[str, Any]) -> str:
    """Return the start of the run as text, empty if it is unknown."""
    moment = formats.parse_timestamp(record.get("started"))
    return moment.strftime("%d %B %Y, %H:%M UTC").lstrip("0") if moment else ""


def phase_duration_rows(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per phase: status, duration in seconds and as text, share of the longest in percent."""
    rows = []
    for name, phase in (of.get("phases") or {}).items():
        spent = phase.get("seconds")
        rows.append(
            {
                "name": name,
                "status": phase.get("status") or "unknown",
                "seconds": float(spent or 0),
                "text": formats.format_duration(spent) if spent is not None else "",
                "error": phase.get("error") or "",
            }
        )
    longest = max((row["seconds"] for row in rows), default=0) or 1
    for row in rows:
        row["share"] = round(100 * row["seconds"] / longest, 1)
    return rows


def environment_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) pairs of the environment."""
    hidden = ("interpreter",)  # a path of this machine
    labels = {key: key.replace("_gib", " (GiB)").replace("cpus", "CPUs").replace("_", " ") for key in values}
    return [(labels[key], format_setting_value(value)) for key, value in values.items() if key not in hidden]


def clusters_with_their_hosts(clusters: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each distinct cluster with the inventory hosts that use it."""
    hosts: list[tuple[list[str], Mapping[str, Any]]] = []
    for host, cluster in clusters.items():
        same = next((names for names, other in hosts if other == cluster), None)
        if same is not None:
            same.append(host)
        else:
            hosts.append(([host], cluster))
    return [
        {"host": formats.join_with_and(names) if len(hosts) > 1 else "", "facts": _cluster_property_rows(cluster)}
        for names, cluster in hosts
    ]


def _cluster_property_rows(cluster: Mapping[str, Any]) -> list[tuple[str, str]]:
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


def run_record_rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
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


def cluster_state_section(top: Path, notes: list[str]) -> dict[str, Any] | None:
    """Return the variables of the section; None for a run without captures. Unreadable files are added to ``notes``."""
    index = top / "capture" / "index.json"
    if not index.is_file():
        return None
    try:
        captures = files.read_json(index)["captures"]
    except (DataError, KeyError, TypeError) as error:
        notes.append(f"capture/index.json: {error}")
        return None
    if not isinstance(captures, list) or not all(isinstance(entry, dict) and "folder" in entry for entry in captures):
        notes.append("capture/index.json: captures are no list of entries with a folder")
        return None
    states = []
    for capture in captures:
        path = top / "capture" / Path(str(capture["folder"])).name / "state.json"
        if path.is_file() and "cluster" not in capture:
            try:
                states.append(files.read_json(path))
            except DataError as error:
                notes.append(f"capture/{capture['folder']}/state.json: {error}")
    return {
        "captures": [_cluster_capture_row(capture) for capture in captures],
        "facts": cluster_state_rows(states[-1]) if states else [],
        "differences": cluster_state_differences(states[0], states[-1]) if len(states) > 1 else [],
        "compared": len(states) > 1,
    }


def changed_cluster_objects_section(top: Path, notes: list[str]) -> dict[str, Any] | None:
    """Return the variables of the section on what the run left; None for a run without run_diff."""
    path = top / "run_diff.json"
    if not path.is_file():
        return None
    try:
        run_diff = files.read_json(path)
        rows = [
            {**obj, "how": "created again" if obj.get("again") else name}
            for name in ("left", "gone", "changed")
            for obj in run_diff[name]
        ]
    except (DataError, KeyError, TypeError) as error:
        notes.append(f"run_diff.json: {error}")
        return None
    rows.sort(key=lambda row: not row["ours"])  # what is the run's first
    return {
        "objects": run_diff["objects"],
        "unlisted": formats.format_list(run_diff["unlisted"], 2 * _SOME),
        "count": len(rows),
        "ours": sum(row["ours"] for row in rows),
        "rows": rows[:_MOST],
    }


def _cluster_capture_row(capture: Mapping[str, Any]) -> dict[str, Any]:
    files = [entry["file"] for entry in capture["files"]]
    why = f"{capture['why']}, {capture['cluster']}" if "cluster" in capture else capture["why"]
    return {
        **capture,
        "why": why,
        "size": f"{capture['bytes'] / 1000:.0f} kB",
        "files": files,
        "notes": list(capture["notes"]),
    }


def cluster_state_rows(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the cluster was: its versions, nodes, operators and the software under test."""
    nodes = state["nodes"]
    kinds = Counter((node["kubelet"], node["system"], node["gpus"]) for node in nodes.values())
    pairs = [(formats.capitalize_first_letter(name), version) for name, version in state["versions"].items()]
    for (kubelet, system, gpus), count in kinds.most_common(_SOME):
        parts = [part for part in (system, f"kubelet {kubelet}" if kubelet else "") if part]
        pairs.append((formats.format_count(count, "node"), ", ".join([*parts, formats.format_count(gpus, "GPU")])))
    pairs += list(state["operators"].items())
    for name, component in state["stack"].items():
        if not name.startswith(("ClusterServiceVersion ", "ClusterOperator ")) or not component["ready"]:
            pairs.append(
                (name, " ".join(part for part in (component["state"], component["version"]) if part) or "exists")
            )
    return pairs


def cluster_state_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each kind of difference between two states; empty if they are equal."""
    sentences = []
    for name in ("versions", "operators"):
        sentences += _format_changed_values(name.removesuffix("s"), before[name], after[name])
    old, new = before["nodes"], after["nodes"]
    sentences += _format_counted_names("lost", "node", old.keys() - new.keys())
    sentences += _format_counted_names("new", "node", new.keys() - old.keys())
    both = old.keys() & new.keys()
    sentences += _format_counted_names(
        "not ready any more", "node", (node for node in both if old[node]["ready"] and not new[node]["ready"])
    )
    sentences += _format_counted_names(
        "ready again", "node", (node for node in both if new[node]["ready"] and not old[node]["ready"])
    )
    for what, how in _CHANGES.items():
        sentences += _format_counted_names(how, "node", (node for node in both if old[node][what] != new[node][what]))
    restarts = {
        name: count - before["restarts"].get(name, 0)
        for name, count in after["restarts"].items()
        if count > before["restarts"].get(name, 0)
    }
    if restarts:
        most = sorted(restarts.items(), key=lambda pair: (-pair[1], pair[0]))
        names = formats.format_list((f"{name} ({count})" for name, count in most), _SOME)
        sentences.append(f"{formats.format_count(sum(restarts.values()), 'restart')} of containers: {names}")
    images = sorted(name for name, digest in after["images"].items() if before["images"].get(name, digest) != digest)
    sentences += _format_counted_names("with another digest", "image", images)
    stack, later = before["stack"], after["stack"]
    sentences += _format_counted_names("gone", "stack object", stack.keys() - later.keys())
    sentences += _format_counted_names("new", "stack object", later.keys() - stack.keys())
    for name in sorted(stack.keys() & later.keys()):
        if stack[name] != later[name]:
            sentences.append(f"{name}: {_format_component_state(stack[name])} → {_format_component_state(later[name])}")
    return sentences


def _format_component_state(component: Mapping[str, Any]) -> str:
    ready = "" if component["ready"] else "not ready"
    return ", ".join(part for part in (component["state"], component["version"], ready) if part) or "ready"


def _format_changed_values(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{what} of {name}: {before.get(name, 'none')} → {after.get(name, 'none')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _format_counted_names(how: str, what: str, names: Iterable[str]) -> list[str]:
    sorted_names = sorted(names)
    return (
        [f"{formats.format_count(len(sorted_names), what)} {how}: {formats.format_list(sorted_names, _SOME)}"]
        if sorted_names
        else []
    )


def preload_and_download_rows(top: Path) -> list[tuple[str, str]]:
    """Return name and text of each image that was preloaded and of each source that was downloaded.

    Steps whose file is missing or broken are left out. Of a source that several points needed, the first one counts.
    """
    images = {
        document["image"]: _format_image_preload(document["nodes"])
        for document in _read_phase_json_files(top, "image_pulls.json")
    }
    sources: dict[str, str] = {}
    for document in _read_phase_json_files(top, "downloads.json"):
        for download in document["downloads"]:
            sources.setdefault(download["name"], _format_source_download(download))
    return [*images.items(), *sources.items()]


def _read_phase_json_files(top: Path, name: str) -> Iterator[Mapping[str, Any]]:
    for path in sorted(top.glob(f"[0-9]*__*/{name}")):
        try:
            yield files.read_json(path)
        except DataError:
            continue


def _format_image_preload(nodes: Sequence[Mapping[str, Any]]) -> str:
    measured = [node for node in nodes if not node["simulated"]]
    pulled = [node["seconds"] for node in measured if not node["there"] and node["seconds"] is not None]
    there = sum(1 for node in measured if node["there"])
    parts = [f"pulled in up to {max(pulled):.1f} s on {formats.format_count(len(pulled), 'node')}"] if pulled else []
    parts += [f"there already on {formats.format_count(there, 'node')}"] if there else []
    return ", ".join(parts) or "nothing was measured"


def _format_source_download(download: Mapping[str, Any]) -> str:
    how = f"in {download['seconds']:.2f} s" if download["downloaded"] else "there already"
    return (
        f"{download['bytes'] / 2**20:,.1f} MiB {how}, sha256 {str(download['sha256'])[:_DIGITS]}…, from"
        f" {download['source']}"
    )
