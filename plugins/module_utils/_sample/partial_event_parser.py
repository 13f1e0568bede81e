# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaving out of an event what nobody reads before it is parsed: managedFields, and the spec where stages need none.

parts() leaves out still more for an object that is known: only what differs from one event to the next is looked at.
slimmer() leaves out of a status what differs from object to object: what is left many have alike, and is read once.

These are most of an event, and parsing is most of what an event costs. Only patterns that hold unescaped quotation
marks are looked for, and inside a JSON string every quotation mark is escaped, so a match is never part of a text.
Where the pieces do not stand as API servers write them, nothing is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

#: json.loads without what it does besides decoding.
_decode = json.JSONDecoder().raw_decode
_MANAGED = b',"managedFields":['
#: What follows managedFields: built-in kinds have it last in their metadata, custom resources have sorted keys.
_AFTER = (b']},"spec":', b']},"status":', b'],"name":"')
_SPEC, _STATUS = b'},"spec":{', b'},"status":{'
#: Built-in kinds have it before managedFields. That it goes says nothing of an object, and it goes from every pod.
_FINALIZERS = b',"finalizers":['
#: What of a status is an object's own, as built-in kinds write it: its keys, and how it stands there.
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
#: How an event of a built-in kind begins. No name can hold a quotation mark.
_HEAD = re.compile(
    rb'\{"type":"(?:ADDED|MODIFIED)","object":\{"kind":"[^"]*","apiVersion":"[^"]*","metadata":\{"name":"[^"]*",'
    rb'(?:"generateName":"[^"]*",)?(?:"namespace":"[^"]*",)?"uid":"([^"]+)","resourceVersion":"(\d+)",'
)


def event(line: bytes, spec: bool) -> dict[str, Any]:
    """Return an event as a dictionary, without what cut() leaves out."""
    try:
        found: dict[str, Any] = _decode(cut(line, spec).decode())[0]
        return found
    except ValueError:
        return json.loads(line)  # it was not written as we know it


def cut(line: bytes, spec: bool) -> bytes:
    """Return an event without managedFields and, unless ``spec`` is needed, without the object's spec."""
    begin = line.find(_MANAGED)
    if begin >= 0:
        for after in _AFTER:
            end = line.find(after, begin)
            # The first of them that fits: managed fields hold no list, so nothing of the kind stands inside.
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
    """Return uid, resourceVersion, a hash of the other metadata, and the status as JSON; None when they don't stand so.

    The hash leaves finalizers and managedFields out, and what stands before the uid, which never changes. For built-in
    kinds only: in custom resources a status can stand anywhere.
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


def status(text: bytes) -> dict[str, Any]:
    """Return a status of parts() as a dictionary."""
    found: dict[str, Any] = _decode(text.decode())[0]
    return found


def slimmer(keys: Collection[str]) -> Callable[[bytes], bytes]:
    """Return a function that leaves out of a status of parts() what is an object's own, but nothing under ``keys``."""
    patterns = [pattern for names, pattern in _OWN if not set(names) & set(keys)]
    if not patterns:
        return bytes
    leave_out = re.compile(b"|".join(patterns), re.DOTALL).sub

    def slim(status: bytes) -> bytes:
        return leave_out(b"", status)

    return slim
