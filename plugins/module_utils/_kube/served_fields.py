# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields an API server knows of a kind, from its OpenAPI description, which every user may read.

Two releases of a project may serve different fields under one version of the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError

from .client import Client

_KIND = "x-kubernetes-group-version-kind"
_NAME = "#/components/schemas/"


class ServedSchemas:
    """The schemas of a server; those of a version are requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._schemas: dict[str, dict[str, Any]] = {}

    def has_field(self, api_version: str, kind: str, path: str) -> bool:
        """Return whether a kind has a field, such as spec.runtimePatches; lists are passed through. Raises ApiError."""
        found = [self._schema(api_version, kind) or {}]
        for name in path.split("."):
            found = [
                properties[name]
                for schema in found
                for part in self._parts(api_version, schema)
                if name in (properties := part.get("properties") or {})
            ]
        return bool(found)

    def _schema(self, api_version: str, kind: str) -> dict[str, Any] | None:
        group, _slash, version = api_version.rpartition("/")
        wanted = {"group": group, "version": version, "kind": kind}
        return next((schema for schema in self._all(api_version).values() if wanted in schema.get(_KIND, ())), None)

    def _all(self, api_version: str) -> dict[str, Any]:
        if api_version not in self._schemas:
            root = "apis" if "/" in api_version else "api"
            try:
                document = self._client.request("GET", f"/openapi/v3/{root}/{api_version}")
            except ApiError as error:
                if error.status != 404:
                    raise
                document = {}
            self._schemas[api_version] = (document.get("components") or {}).get("schemas") or {}
        return self._schemas[api_version]

    def _parts(self, api_version: str, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield a schema and those that it consists of or whose elements it lists."""
        yield schema
        if name := str(schema.get("$ref", "")).removeprefix(_NAME):
            yield from self._parts(api_version, self._all(api_version).get(name, {}))
        for inner in [*schema.get("allOf", ()), *([schema["items"]] if "items" in schema else [])]:
            yield from self._parts(api_version, inner)
