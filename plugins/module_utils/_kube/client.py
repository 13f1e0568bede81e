# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thread-safe client of one API server: its kinds and objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_list_of_json_objects,
)

from . import discovery
from .api_requests import ApiRequests
from .api_server_access import ApiServerAccess
from .connection import JSON, METADATA, METADATA_LIST
from .discovery import ServedKind
from .label_selectors import is_selected
from .lost_labels import refuse_lost_labels
from .missing_resources import DEFINITIONS_GROUP
from .object_accessors import is_condition_true

MERGE_PATCH = "application/merge-patch+json"
#: Lists that have keys are merged.
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: Field manager of what we write.
MANAGER = "perfscale-seatrial"

#: Most pages of a list, with two million objects: a server may name a next one for ever.
MOST_PAGES = 4_000


class Client(ApiRequests):
    """Kinds and objects of the API server of one kubeconfig; no other host is asked."""

    def __init__(self, access: ApiServerAccess, timeout: float = 60.0) -> None:
        super().__init__(access, timeout)
        self._kinds: dict[str, list[ServedKind]] = {}
        #: What kinds() could not see: ``group/version``, or ``plural.group`` of a definition.
        self.unknown_groups: list[str] = []
        #: Whether kinds() could not see which definitions exist, so that it may lack kinds.
        self.definitions_hidden = False

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
        kinds = list[ServedKind]()
        self.unknown_groups, self.definitions_hidden = [], False
        for base in ("/api", "/apis"):
            document = self.request("GET", base, accept=discovery.AGGREGATED)
            with expect_documented_form(f"GET {base} at {self.access.server}", document):
                if document.get("kind") == "APIGroupDiscoveryList":
                    kinds += discovery.kinds_in_preferred_versions(document)
                    self.unknown_groups += discovery.groups_without_answer(document)
                    continue
                versions = discovery.versions_in_group_list(document)
            kinds += discovery.first_of_each_resource(self._discover_each(versions))
        self.unknown_groups += self._undiscovered_definitions(kinds)
        return kinds

    def _discover_each(self, versions: Iterable[str]) -> Iterator[ServedKind]:
        """Yield the kinds of each version; note those whose aggregated API server does not answer."""
        for version in versions:
            try:
                yield from self._discover(version)
            except (ApiError, InputError):
                if "/" not in version:
                    raise
                self.unknown_groups.append(version)

    def _undiscovered_definitions(self, kinds: Iterable[ServedKind]) -> list[str]:
        """Return the established definitions of kinds that the discovery lacks, of groups that are not noted yet."""
        served = {f"{kind.resource}.{kind.group}": kind for kind in kinds}
        definition = served.get(f"customresourcedefinitions.{DEFINITIONS_GROUP}")
        noted = {discovery.group_of_unknown_kinds(entry) for entry in self.unknown_groups}
        if definition is None:
            return []
        try:
            names = sorted(item["metadata"]["name"] for item in self.list(definition, metadata_only=True)[0])
            lacking = [name for name in names if name not in served and name.partition(".")[2] not in noted]
            return [name for name in lacking if is_condition_true(self.get(definition, name), "Established")]
        except ApiError:
            self.definitions_hidden = True
            return []

    # Objects

    def create(self, manifest: dict[str, Any], query: dict[str, Any] | None = None) -> dict[str, Any]:
        """POST an object into its namespace, by default that of the kubeconfig. Raises as post() does."""
        return self.post(self.kind_of(manifest).path_of(manifest, self.access.namespace), manifest, query)

    def post(self, path: str, manifest: dict[str, Any], query: dict[str, Any] | None = None) -> dict[str, Any]:
        """POST an object and return it. path: of its kind, in its namespace.

        Raises OwnershipError if the cluster takes labels of ours from it: it is deleted again.
        """
        made: dict[str, Any] = self.request("POST", path, manifest, query)

        def undo() -> bool:
            return self._delete_exactly(f"{path}/{quote(manifest['metadata']['name'], safe='')}", made["metadata"], {})

        refuse_lost_labels(self.access.server, manifest, made, None if (query or {}).get("dryRun") else undo)
        return made

    def create_once(self, path: str, manifest: dict[str, Any], query: dict[str, Any] | None = None) -> bool:
        """POST an object as post() does; return False if one of its name exists, which is kept."""
        try:
            self.post(path, manifest, query)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    def apply(self, manifest: dict[str, Any], manager: str = MANAGER, check: bool = False) -> dict[str, Any]:
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
        """Delete whatever has this name; return False if there is none. ``options``: fields of DeleteOptions.

        An object that was read is deleted with delete_seen().
        """
        try:
            self.request("DELETE", kind.path(namespace, name), options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def delete_seen(
        self, kind: ServedKind, metadata: Mapping[str, Any], unchanged: bool = False, **options: Any
    ) -> bool:
        """Delete exactly the object that was read with this ``metadata``, by default its dependents after it.

        Returns False if it is gone, or if the name is another object's now, which is kept. unchanged: keep also an
        object that has changed since. options: fields of DeleteOptions. Raises AccessError for metadata without a uid.
        """
        path = kind.path(str(metadata.get("namespace") or ""), metadata["name"])
        return self._delete_exactly(path, metadata, options, ("uid", "resourceVersion") if unchanged else ("uid",))

    def _delete_exactly(
        self, path: str, metadata: Mapping[str, Any], options: Mapping[str, Any], keys: tuple[str, ...] = ("uid",)
    ) -> bool:
        with expect_documented_form(f"DELETE {path} at {self.access.server}", metadata):
            known = {key: metadata[key] for key in keys}
        try:
            self.request("DELETE", path, {"propagationPolicy": "Background", **options, "preconditions": known})
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

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
