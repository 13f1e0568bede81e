# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thread-safe client of one API server: each request uses an idle connection or opens one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
    require_list_of_json_objects,
)

from . import discovery
from .api_errors import api_error
from .api_server_access import ApiServerAccess
from .connection import (
    JSON,
    METADATA,
    METADATA_LIST,
    ApiReply,
    ApiServerConnection,
    Broken,
    format_request_head,
    request_bytes,
)
from .discovery import ServedKind
from .kubeconfig import load_context_access
from .label_selectors import is_selected

MERGE_PATCH = "application/merge-patch+json"
#: Lists that have keys are merged.
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

#: How often a request is sent that the server rejects for now (429, 503), and the longest pause between, seconds.
_TRIES = 5
_LONGEST_PAUSE = 5.0
#: Most pages of a list, with two million objects: a server may name a next one for ever.
MOST_PAGES = 4_000


class Client:
    """Requests to the API server of one kubeconfig, and to no other host."""

    def __init__(self, access: ApiServerAccess, timeout: float = 60.0) -> None:
        self.access = access
        self.timeout = timeout
        self._idle: list[ApiServerConnection] = []
        self._kinds: dict[str, list[ServedKind]] = {}
        self.unknown_groups: list[str] = []
        self._lock = threading.Lock()

    @classmethod
    def from_kubeconfig(cls, path: str | Path, context: str = "", timeout: float = 60.0) -> Client:
        """Read a kubeconfig; nothing is sent yet. Raises InputError."""
        return cls(load_context_access(path, context), timeout)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # One request

    def raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        query: dict[str, Any] | None = None,
    ) -> ApiReply:
        """Send one request and return its reply, whatever its status.

        A GET request whose connection broke is sent again; others are not, because their outcome is unknown.
        Refused credentials (401) are read again once. Raises Broken, AccessError.
        """
        head = format_request_head(self.access, method, append_query_to_path(path, query), accept)
        connection = self._take()
        try:
            shown = self.access.authorization
            reply = self._once(connection, head, body, content_type, method == "GET")
            if reply.status == 401 and self.access.refresh(shown):
                connection.close()  # a client certificate is presented when a connection is opened
                reply = self._once(connection, head, body, content_type, method == "GET")
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return reply

    def _take(self) -> ApiServerConnection:
        with self._lock:
            return self._idle.pop() if self._idle else ApiServerConnection(self.access, self.timeout)

    def _once(
        self, connection: ApiServerConnection, head: bytes, body: bytes, content_type: str, again: bool
    ) -> ApiReply:
        request = request_bytes(self.access, head, body, content_type)
        try:
            return connection.exchange(request)
        except Broken as error:
            if not error.sent or not again:
                raise
            return connection.exchange(request)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send one request and return the JSON of the reply (None if it has no body).

        ``body``: bytes as they are, anything else as JSON. 429 and 503 with Retry-After are repeated a few times.
        Raises ApiError for a status of 300 and above, AccessError when credentials are refused.
        """
        data = (
            body
            if isinstance(body, bytes)
            else b""
            if body is None
            else json.dumps(body, separators=(",", ":")).encode()
        )
        for attempt in range(1, _TRIES + 1):
            reply = self.raw(method, path, data, content_type, accept, query)
            wait = reply.header("retry-after") if reply.status in (429, 503) else None
            if wait is None or attempt == _TRIES:
                break
            time.sleep(min(1.0 if (seconds := formats.parse_whole_number(wait)) is None else seconds, _LONGEST_PAUSE))
        document = self.parsed(reply, f"{method} {path}")
        if document is not None and not isinstance(document, dict):
            raise ApiError(f"{method} {path}: the reply of {self.access.server} is no list and no object")
        return document

    def parsed(self, reply: ApiReply, what: str) -> Any:
        """Return the JSON of ``reply``. Raises ApiError, AccessError for a status of 300 and above.

        An API server redirects nowhere. A proxy in front of it does, such as to the page of a login.
        """
        if reply.status >= 300:
            raise api_error(reply, what, self.access)
        if not reply.body:
            return None
        try:
            return parse_json(reply.body)
        except ValueError as error:
            raise ApiError(
                f"{what}: {self.access.server} returned status {reply.status} without JSON", reply.status
            ) from error

    def text(self, path: str, query: dict[str, Any] | None = None) -> str:
        """GET a resource that is not JSON, such as a pod's log or /readyz."""
        reply = self.raw("GET", path, accept="*/*", query=query)
        if reply.status >= 300:
            raise api_error(reply, f"GET {path}", self.access)
        return reply.body.decode("utf-8", "replace")

    # Kinds

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return a kind and its path, discovered once per API version.

        An unknown kind is looked up each time, because its CRD may just have been created.
        Raises InputError, with the nearest kind, if there is none.
        """
        for known in (self._kinds.get(api_version), None):
            kinds = known if known is not None else self._discover(api_version)
            matching = next((candidate for candidate in kinds if candidate.kind == kind), None)
            if matching is not None:
                return matching
        names = [candidate.kind for candidate in kinds]
        raise InputError(f"{self.access.server} has no kind {kind} in {api_version}{suggest_similar_name(kind, names)}")

    def kind_of(self, manifest: dict[str, Any]) -> ServedKind:
        """Return the kind of an object."""
        return self.kind(str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")))

    def _discover(self, api_version: str) -> list[ServedKind]:
        base = quote(f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")
        try:
            document = self.request("GET", base)
            with expect_documented_form(f"GET {base} at {self.access.server}", document):
                kinds = discovery.kinds_in_resource_list(api_version, document["resources"])
        except ApiError as error:
            if error.status != 404:
                raise
            raise InputError(
                f"{self.access.server} has no API version '{api_version}'; is its operator installed?"
            ) from error
        self._kinds[api_version] = kinds
        return kinds

    def kinds(self) -> list[ServedKind]:
        """Return every kind that the server has, in a version of its group; note in ``unknown_groups`` the rest."""
        kinds: list[ServedKind] = []
        self.unknown_groups = []
        for base in ("/api", "/apis"):
            document = self.request("GET", base, accept=discovery.AGGREGATED)
            with expect_documented_form(f"GET {base} at {self.access.server}", document):
                if document.get("kind") == "APIGroupDiscoveryList":
                    kinds += discovery.kinds_in_preferred_versions(document)
                    self.unknown_groups += discovery.groups_without_answer(document)
                    continue
                groups = document.get("groups") or []
                named = document.get("versions") or [group["preferredVersion"]["groupVersion"] for group in groups]
                versions = [str(version) for version in named]
            for version in versions:
                kinds += self._discover(version)
        return kinds

    # Objects

    def create(self, manifest: dict[str, Any], query: dict[str, Any] | None = None) -> dict[str, Any]:
        """POST an object into its namespace, by default that of the kubeconfig."""
        return self.request("POST", self.kind_of(manifest).path_of(manifest, self.access.namespace), manifest, query)

    def create_once(self, path: str, manifest: Any, query: dict[str, Any] | None = None) -> bool:
        """POST an object as request() does; return False if one of its name exists, which is kept."""
        try:
            self.request("POST", path, manifest, query)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    def apply(
        self, manifest: dict[str, Any], manager: str = "perfscale-seatrial", check: bool = False
    ) -> dict[str, Any]:
        """Apply an object (server-side apply), taking over fields of other managers. check: change nothing."""
        path = f"{self.kind_of(manifest).path_of(manifest, self.access.namespace)}/{manifest['metadata']['name']}"
        query = {"fieldManager": manager, "force": "true", "dryRun": "All" if check else None}
        return self.request("PATCH", path, manifest, query, APPLY_PATCH)

    def get(
        self, kind: ServedKind, name: str, namespace: str = "", metadata_only: bool = False
    ) -> dict[str, Any] | None:
        """Return an object, None if there is none of that name."""
        try:
            path = kind.path(namespace, name)
            found = self.request("GET", path, accept=METADATA if metadata_only else JSON)
            return require_named_object(f"GET {path} at {self.access.server}", found)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def delete(self, kind: ServedKind, name: str, namespace: str = "", options: dict[str, Any] | None = None) -> bool:
        """Delete an object; return False if there is none. ``options``: fields of DeleteOptions."""
        try:
            self.request("DELETE", kind.path(namespace, name), options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def delete_seen(self, kind: ServedKind, name: str, namespace: str, uid: str) -> None:
        """Delete exactly the object with this uid, then its dependents; a new one of the same name is kept."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self.delete(kind, name, namespace, options)
        except ApiError as error:
            if error.status != 409:
                raise

    def pages(
        self,
        kind: ServedKind,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        metadata_only: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Yield a list page by page, each as the server sends it (``metadata.resourceVersion``, ``items``).

        Objects that the label selector does not select are left out: a proxy or a server may ignore the selector.
        Raises ApiError 410 when the list grew too old between two pages.
        """
        query: dict[str, Any] = {"limit": limit, "labelSelector": label_selector, "fieldSelector": field_selector}
        path, accept = kind.path(namespace), METADATA_LIST if metadata_only else JSON
        what = f"GET {path} at {self.access.server}"
        for _number in range(MOST_PAGES):
            page = self.request("GET", path, query=query, accept=accept)
            if not isinstance(page, dict) or not isinstance(page.get("metadata"), dict):
                raise ApiError(f"GET {path}: the reply of {self.access.server} is no list")
            listed = require_list_of_json_objects(what, page.get("items") or [])
            page["items"] = [item for item in listed if is_selected(label_selector, require_named_object(what, item))]
            yield page
            query["continue"] = page["metadata"].get("continue")
            if not query["continue"]:
                return
        raise ApiError(f"{what}: the list has more than {MOST_PAGES:,} pages")

    def list(
        self,
        kind: ServedKind,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        metadata_only: bool = False,
    ) -> tuple[list[dict[str, Any]], str]:
        """Return all objects (of all namespaces without ``namespace``) and the list's resourceVersion."""
        for attempt in range(3):
            items: list[dict[str, Any]] = []
            version = ""
            try:
                for page in self.pages(kind, namespace, label_selector, field_selector, limit, metadata_only):
                    for resource in page["items"]:
                        # The items of a list lack apiVersion and kind.
                        resource.setdefault("apiVersion", kind.api_version)
                        resource.setdefault("kind", kind.kind)
                    items += page["items"]
                    version = page["metadata"].get("resourceVersion") or version
                return items, version
            except ApiError as error:
                # The first page's revision was compacted while the others were read: start again.
                if error.status != 410 or attempt == 2:
                    raise
        raise AssertionError  # not reached


#: Types of further fields of metadata, which an API server checks for all kinds. Labels of another form select nothing.
_METADATA = {"namespace": str, "uid": str, "creationTimestamp": str, "annotations": dict}


def require_named_object(what: str, resource: Any) -> dict[str, Any]:
    """Return an object of an API server, which has metadata with a name. Raises AccessError for another document."""
    with expect_documented_form(what, resource):
        metadata = resource["metadata"]
        if not isinstance(metadata["name"], str) or not all(
            isinstance(metadata[key], form) for key, form in _METADATA.items() if metadata.get(key) is not None
        ):
            raise TypeError("the metadata of an object has other types")
    return dict(resource)


def append_query_to_path(path: str, query: dict[str, Any] | None) -> str:
    """Return ``path`` with the non-empty entries of the query."""
    params = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(params)}" if params else path
