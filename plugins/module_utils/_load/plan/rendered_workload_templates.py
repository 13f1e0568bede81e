# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A template of workloads, what it is after rendering with its bodies on disk, and the names of its objects."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


class BodyCache:
    """Byte strings by index in an unnamed temporary file, to save memory. Any thread may read.

    indices: of the bodies that will be added, ascending.
    """

    def __init__(self, indices: Sequence[int]) -> None:
        self._indices = indices
        self._stream = tempfile.TemporaryFile(prefix="seatrial-bodies-")  # noqa: SIM115  open as long as the cache exists
        self._ends = array("Q", [0])

    def append(self, body: bytes) -> None:
        """Add the next body. For one thread, before seal()."""
        self._stream.write(body)
        self._ends.append(self._ends[-1] + len(body))

    def seal(self) -> None:
        """Make the added bodies readable."""
        self._stream.flush()

    def __getitem__(self, index: int) -> bytes:
        """Return the body with this index. Raises KeyError."""
        place = bisect_left(self._indices, index)
        if place >= len(self._ends) - 1 or self._indices[place] != index:
            raise KeyError(index)
        return os.pread(self._stream.fileno(), self._ends[place + 1] - self._ends[place], self._ends[place])


#: Stands for the index in a path, whose names are in lower case.
_PLACE = "INDEX"
#: Variables of a template besides its parameters.
VARIABLES = ("run_id", "point", "index", "name", "namespace", "labels", "prepared")


@dataclass(frozen=True)
class WorkloadTemplate:
    """A template of a workload: YAML with Jinja2. The last document is the workload, those before it are related.

    prepare: the template of objects that all its workloads share. ready: conditions of these that the load waits for.
    """

    name: str
    content: str
    weight: int = 1
    parameters: dict[str, Any] = field(default_factory=dict)
    prepare: str = ""
    ready: list[dict[str, Any]] = field(default_factory=list)

    def digest(self) -> str:
        """Return a hash of the template's texts and parameters."""
        text = json.dumps([self.content, self.parameters, *filter(None, [self.prepare])], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class WorkloadDocument:
    """One object of a workload, for any index. ``paths``: of its kind on the API server, set by resolve().

    Lists of pieces are around the index; a list of one piece does not depend on it.
    """

    api_version: str
    kind: str
    namespaces: list[str]  # pieces, from the template; empty means the namespace of the load
    names: list[str]  # pieces
    pieces: list[bytes]  # of the JSON
    bodies: BodyCache | None = None  # one per index, for individually rendered objects
    paths: list[str] = field(default_factory=list)

    def body(self, index: int) -> bytes:
        """Return the object as JSON."""
        if self.bodies is not None:
            return self.bodies[index]
        return str(index).encode().join(self.pieces)

    def name(self, index: int) -> str:
        """Return metadata.name."""
        return str(index).join(self.names)

    @property
    def several_namespaces(self) -> bool:
        """Whether the namespace depends on the index."""
        return len(self.namespaces) > 1

    def namespace(self, index: int | str) -> str:
        """Return metadata.namespace, empty for that of the load."""
        return str(index).join(self.namespaces)

    def fixed_namespace(self, usual: str) -> str:
        """Return its namespace, empty if that depends on the index. usual: the namespace of the load."""
        return "" if self.several_namespaces else self.namespace(0) or usual

    def path(self, index: int) -> str:
        """Return the path of its kind, in its namespace."""
        return str(index).join(self.paths)

    def manifest(self, index: int) -> dict[str, Any]:
        """Return the object."""
        return parse_json(self.body(index))


@dataclass
class RenderedTemplate:
    """A rendered template: its documents in the order of creation, the workload last.

    shared: the objects that its workloads share, which are created before them.
    """

    template: WorkloadTemplate
    documents: list[WorkloadDocument]
    namespace: str  # of documents without one
    first: int = 0  # index of the first workload of the template
    shared: list[dict[str, Any]] = field(default_factory=list)

    @property
    def workload(self) -> WorkloadDocument:
        """The document that is measured."""
        return self.documents[-1]

    def header(self) -> dict[str, Any]:
        """Return the template's entry for the plan."""
        return {
            "name": self.template.name,
            "kind": self.workload.kind,
            "api_version": self.workload.api_version,
            "namespace": self.workload.namespace(run_labels.INDEX_PLACEHOLDER) or self.namespace,
            "related": [document.kind for document in self.documents[:-1]],
            **({"shared": [[o["kind"], o["metadata"]["namespace"]] for o in self.shared]} if self.shared else {}),
            "weight": self.template.weight,
            "parameters": self.template.parameters,
            "sha256": self.template.digest(),
        }


def resolve_document_api_paths(client: Client, rendered: list[RenderedTemplate], namespace: str) -> None:
    """Set the path of each document, and the namespaces of shared objects, from the API server's discovery.

    Raises InputError for an unknown kind.
    """
    for document in documents_of_templates(rendered):
        kind = client.kind(document.api_version, document.kind)
        document.paths = kind.path(document.namespace(_PLACE) or namespace).split(_PLACE)
    for manifest in (manifest for template in rendered for manifest in template.shared):
        if not client.kind_of(manifest).namespaced:
            manifest["metadata"]["namespace"] = ""


def documents_of_templates(rendered: list[RenderedTemplate]) -> Iterator[WorkloadDocument]:
    """Yield all documents of all templates."""
    for template in rendered:
        yield from template.documents


def namespace_to_watch(rendered: list[RenderedTemplate], usual: str) -> str:
    """Return the only namespace of all documents; empty, for all namespaces, if there are several."""
    namespaces = {document.fixed_namespace(usual) for document in documents_of_templates(rendered)}
    return namespaces.pop() if len(namespaces) == 1 else ""


def namespaces_of_workloads(
    rendered: Sequence[RenderedTemplate], workloads: Iterable[tuple[str, int]], usual: str
) -> set[str]:
    """Return the namespaces of all documents of workloads.

    workloads: name of the template and index of each. usual: the namespace of the load.
    """
    documents = {template.template.name: template.documents for template in rendered}
    return {document.namespace(index) or usual for name, index in workloads for document in documents[name]}


def workload_name(run: str, point: str, index: int | str) -> str:
    """Return the name of a workload, which is unique to run, point and index.

    The second attempt at point 003 is 003r2 here: run-003-2-0 could also be a pod of workload 2 of point 003.
    """
    return f"{run}-{point.replace('-', 'r')}-{index}"


def shared_objects_name(run: str, point: str, template: str) -> str:
    """Return the name of the objects that the workloads of a template share."""
    return workload_name(run, point, re.sub(r"[^a-z0-9-]+", "-", template.lower()))[:63].rstrip("-")
