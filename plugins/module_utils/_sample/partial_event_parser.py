# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parses only the needed fields of a watch event: without managedFields, and without spec if no stage needs it.

These are most of an event, and parsing is most of its cost. For a known object, parts() returns even less: what can
differ between two events. slimmer() removes from a status what differs from object to object, so that many objects
share the rest, which is then parsed once.

The patterns contain unescaped quotation marks. Inside a JSON string every quotation mark is escaped, so a match is
never part of a string. If an event is not formatted as API servers do it, nothing is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

#: json.loads without its checks of the arguments.
_decode = json.JSONDecoder().raw_decode
_MANAGED = b',"managedFields":['
#: What follows managedFields: built-in kinds have it last in their metadata, custom resources have sorted keys.
_AFTER = (b']},"spec":', b']},"status":', b'],"name":"')
_SPEC, _STATUS = b'},"spec":{', b'},"status":{'
#: Built-in kinds have it before managedFields. Its removal is no change of interest, and every pod has one.
_FINALIZERS = b',"finalizers":['
#: Fields of a status that are specific to an object, as built-in kinds write them: keys, pattern.
_OWN = (
    (
        ("hostIP", "hostIPs", "podIP", "podIPs"),
        rb',"hostIP":"[^"]*"(?:,"hostIPs":\[[^\]]*\])?(?:,"podIP":"[^"]*")?(?:,"podIPs":\[[^\]]*\])?',
    ),
    (
        ("initContainerStatuses", "containerStatuses"),
        rb',"(?:initC|c)ontainerStatuses":\[.*?\](?=,"qosClass":")',
    ),
    (("uncountedTerminatedPods",), rb',"uncountedTerminatedPods":\{[^{}]*\}'),
)
#: The beginning of an event of a built-in kind. No name can contain a quotation mark.
_HEAD = re.compile(
    rb'\{"type":"(?:ADDED|MODIFIED)","object":\{"kind":"[^"]*","apiVersion":"[^"]*","metadata":\{"name":"[^"]*",'
    rb'(?:"generateName":"[^"]*",)?(?:"namespace":"[^"]*",)?"uid":"([^"]+)","resourceVersion":"(\d+)",'
)
#: The node of a bound pod. Its spec contains a service account, because admission adds one.
_NODE = re.compile(
    rb'"serviceAccount(?:Name)?":"[^"]*",(?:"automountServiceAccountToken":(?:true|false),)?"nodeName":"([^"]*)"'
)


def event(line: bytes, spec: bool) -> dict[str, Any]:
    """Return an event as a dictionary, without the fields that cut() removes."""
    try:
        found: dict[str, Any] = _decode(cut(line, spec).decode())[0]
        return found
    except ValueError:
        return json.loads(line)  # in another format than expected


def cut(line: bytes, spec: bool) -> bytes:
    """Return an event without managedFields and, unless ``spec`` is needed, without the object's spec."""
    begin = line.find(_MANAGED)
    if begin >= 0:
        for after in _AFTER:
            end = line.find(after, begin)
            # The first match: managed fields contain no list, so the pattern cannot occur inside.
            if end >= 0 and line.find(b'"name":"', begin, end) < 0:
                line = line[:begin] + line[end + 1 :]
                break
    if not spec:
        begin = line.find(_SPEC)
        if begin >= 0:
            end = line.find(_STATUS, begin)
            if end >= 0 and line.rfind(_STATUS) == end:
                line = line[:begin] + line[end:]
    return line


def parts(line: bytes) -> tuple[str, str, int, bytes] | None:
    """Return uid, resourceVersion, a hash of the other metadata, and the status as JSON; None for another format.

    The hash excludes finalizers, managedFields, and the fields before the uid, which never change. For built-in kinds
    only: in custom resources the position of the status varies.
    """
    head = _HEAD.match(line)
    if head is None:
        return None
    begin = head.end()
    end = line.find(_MANAGED, begin)
    status = line.rfind(_STATUS)
    if end < 0 or status < end or line.find(_STATUS, end) != status or not line.endswith(b"}}}"):
        return None
    uid, version = head.groups()
    stop = line.find(_FINALIZERS, begin, end)
    rest = line[begin : end if stop < 0 else stop]
    return uid.decode(), version.decode(), hash(rest), line[status + len(_STATUS) - 1 : -2]


def node_of(line: bytes) -> str:
    """Return the node to which the pod of an event is bound, "" if it is not bound."""
    found = _NODE.search(line)
    if found is not None:
        return found[1].decode()
    if b'"nodeName":"' not in line:
        return ""
    return str((event(line, True)["object"].get("spec") or {}).get("nodeName") or "")


def status(text: bytes) -> dict[str, Any]:
    """Return a status of parts() as a dictionary."""
    found: dict[str, Any] = _decode(text.decode())[0]
    return found


def slimmer(keys: Collection[str]) -> Callable[[bytes], bytes]:
    """Return a function that removes object-specific fields from a status of parts(), except those in ``keys``."""
    patterns = [pattern for names, pattern in _OWN if not set(names) & set(keys)]
    if not patterns:
        return bytes
    leave_out = re.compile(b"|".join(patterns), re.DOTALL).sub

    def slim(status: bytes) -> bytes:
        return leave_out(b"", status)

    return slim
