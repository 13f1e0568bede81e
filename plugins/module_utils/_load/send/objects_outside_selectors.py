# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load that others submit: objects that the selectors leave out, and a namespace that exists before the load."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from math import inf
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from .load_spec import SampleSpec

#: Interval between two lists without selectors, seconds, and the maximum number of objects that are compared.
_LEFT_OUT_INTERVAL, _MOST_LOOKED_AT = 3.0, 2000


def find_existing_namespace(client: Client, names: Sequence[str]) -> str:
    """Return the first namespace that exists, for the canary: the load may create its own later. Raises InputError."""
    kind = client.kind("v1", "Namespace")
    for name in names:
        try:
            if client.get(kind, name, metadata_only=True) is not None:
                return name
        except ApiError:  # no permission to read it
            return name
    raise InputError(
        f"none of the namespaces {formats.format_list(names)} exists yet, and the canary needs one: name one that"
        " exists, canary_namespace (sample_canary_namespace)"
    )


class ObjectsLeftOut:
    """Objects of the workloads' kind that appear, and that the selectors leave out."""

    def __init__(self, client: Client, request: SampleSpec) -> None:
        self.sentence = ""  # for the user, once there are such objects
        self._client = client
        self._request = request
        self._next = time.monotonic() + _LEFT_OUT_INTERVAL if request.label_selector or request.field_selector else inf
        self._before = {item["metadata"]["uid"] for item in self._listed_objects()} if self._next < inf else set()
        if len(self._before) >= _MOST_LOOKED_AT:
            self._next = inf  # older objects that were not listed would look new

    def look(self) -> str:
        """Return a sentence when the first such objects have appeared, otherwise an empty text."""
        if self.sentence or time.monotonic() < self._next:
            return ""
        self._next = time.monotonic() + _LEFT_OUT_INTERVAL
        new = [item["metadata"] for item in self._listed_objects() if item["metadata"]["uid"] not in self._before]
        if not new:
            return ""
        request = self._request
        selectors = " and ".join(filter(None, (request.label_selector, request.field_selector)))
        labels = (
            ", ".join(f"{key}={value}" for key, value in sorted((new[0].get("labels") or {}).items())) or "no labels"
        )
        name = "/".join(filter(None, (new[0].get("namespace"), new[0]["name"])))
        self.sentence = (
            f"{formats.format_count(len(new), request.kinds[0].kind)} appeared that {selectors} leaves out, such as"
            f" {name} with {labels}"
        )
        return self.sentence

    def _listed_objects(self) -> list[dict[str, Any]]:
        """Return the metadata of at most _MOST_LOOKED_AT objects; none if they can't be read."""
        things: list[dict[str, Any]] = []
        first = self._request.kinds[0]
        for version in first.api_versions:
            with contextlib.suppress(InputError, ApiError, AccessError):
                kind = self._client.kind(version, first.kind)
                for namespace in self._request.namespaces or ("",):
                    for page in self._client.pages(kind, namespace, metadata_only=True):
                        things += page["items"]
                        if len(things) >= _MOST_LOOKED_AT:
                            return things
                break
        return things
