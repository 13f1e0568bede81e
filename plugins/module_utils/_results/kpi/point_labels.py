# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of a point's KPIs: all that must be equal for its figures to be comparable with those of another run.

They are read from the files of the run, so that the results of a run of an older version get the same labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

FlatLabels = dict[str, Any]  # text, numbers, truth values

#: Bytes of a text; longer ones are replaced by their checksum: a search server does not index them. Bytes of a name.
LONGEST, LONGEST_NAME = 8191, 1024
#: Beginning of the names of settings among the labels of one level.
SETTINGS = "settings."
_COLLECTION = "perfscale.seatrial"


@dataclass(frozen=True)
class ReadSettings:
    """Which settings a run reads: those of these roles. Without roles, which older versions did not record, all."""

    read: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    _known: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, run: Run) -> ReadSettings:
        """Return what is recorded in run.yml."""
        roles = run.record.get("roles") or {}
        return cls(tuple(roles.get("read") or ()), tuple(roles.get("other") or ()))

    def reads(self, setting: str) -> bool:
        """Return whether a setting belongs to one of the roles. A setting begins with the name of its role."""
        if not self.read:
            return True
        if setting not in self._known:
            roles = (role for role in (*self.read, *self.other) if setting.startswith(f"{role}_"))
            self._known[setting] = max(roles, key=len, default="") in self.read
        return self._known[setting]

    def keep_read(self, labels: FlatLabels) -> FlatLabels:
        """Return labels of one level without the settings that are not read."""
        begin = len(SETTINGS)
        return {
            name: value
            for name, value in labels.items()
            if not name.startswith(SETTINGS) or self.reads(name[begin:].partition(".")[0])
        }


ALL_SETTINGS = ReadSettings()


def labels_of_point(run: Run, point: Point) -> dict[str, Any]:
    """Return the labels of a point, as in schema kpis/2. What is unknown is absent."""
    reads = ReadSettings.of(run).reads
    settings = point.all_settings
    known = {
        "project": run.record.get("project"),
        "presets": run.record.get("presets"),
        "settings": settings and {name: value for name, value in settings.items() if reads(name)},
        "uuid": point.record.get("uuid"),
    }
    return {
        **_present(known),
        "matrix": point.settings,
        "ran": _recorded_cluster_and_software(run, point),
        "attempt": {"point": point.of, "number": point.attempt},
    }


def add_node_kind_labels(labels: Mapping[str, Any], table: TimelineTable) -> dict[str, Any]:
    """Return the labels of a point with what its timeline says about the nodes of its workloads."""
    kinds = timeline_views.node_kind_of_timeline(table)
    if kinds in (None, timeline_views.SIMULATED):
        return dict(labels)
    simulated = any(stage["simulated"] for stage in table.stages)
    return {**labels, "ran": {**labels["ran"], "simulated": simulated, "workload_nodes": kinds}}


def recorded_labels(run: Run, point: Point) -> dict[str, Any]:
    """Return the labels in kpis.json; for figures of an older version, those that the files of the run give."""
    return labels_of_point(run, point) if point.labels is None else point.labels


def _recorded_cluster_and_software(run: Run, point: Point) -> dict[str, Any]:
    """Return what ran: as recorded at the end of the point, else as recorded when the cluster was acquired."""
    cluster = run.clusters.get("sutest") or {}
    known = {
        "simulated_writers": run.simulated_writers,
        "provider": cluster.get("provider"),
        "kubernetes": cluster.get("version"),
        "openshift": cluster.get("openshift"),
        "kind": cluster.get("kind"),
        "collection": (run.record.get("versions") or {}).get(_COLLECTION),
        "revision": (run.record.get("git") or {}).get("revision"),
        "nodes": point.ran.get("nodes") or _node_labels_of_cluster(cluster),
        "operators": point.ran.get("operators", cluster.get("operators")),
        "images": point.ran.get("images"),
    }
    return {"simulated": run.simulated, **_present(known)}


def _node_labels_of_cluster(cluster: Mapping[str, Any]) -> dict[str, Any] | None:
    if cluster.get("nodes") is None:
        return None
    parts = {"count": cluster["nodes"], **{name: cluster.get(name) for name in ("cpus", "memory_gib", "gpus")}}
    return _present({**parts, "gpu_products": cluster.get("gpu_products")})


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}


def flatten_labels(labels: Mapping[str, Any]) -> FlatLabels:
    """Return labels as one level: dotted key -> text, number or truth value. Different labels stay different.

    A dot in a name is written as ``\\.``. Lists, null and empty mappings become JSON; a text that looks like one of
    these is quoted.
    """
    return dict(_flattened_label_pairs(labels, ""))


def _flattened_label_pairs(labels: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str | float | bool]]:
    for name, value in labels.items():
        key = prefix + str(name).replace("\\", "\\\\").replace(".", "\\.")
        if isinstance(value, Mapping) and value:
            yield from _flattened_label_pairs(value, f"{key}.")
        else:
            yield _shortened(key, LONGEST_NAME), _label_value_as_scalar(value)


def _label_value_as_scalar(value: Any) -> str | float | bool:
    if isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) and not _looks_like_json(value) else json.dumps(value, sort_keys=True)
    return _shortened(text, LONGEST, keep=0)


def _shortened(text: str, longest: int, keep: int = 128) -> str:
    """Return a text, or its first characters and its checksum if it has too many bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return text if len(data) <= longest else f"{text[:keep]}sha256:{hashlib.sha256(data).hexdigest()}"


def _looks_like_json(text: str) -> bool:
    return text.startswith(("[", "{", '"')) or text == "null"
