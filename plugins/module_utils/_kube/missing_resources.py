# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a 404 means that something does not exist.

A proxy in front of an API server answers 404 too, for objects that exist. An API server answers with a Status object
for an object that does not exist, and with plain text for a version that it does not serve. Any 404 but such a Status
object is therefore confirmed: the discovery of the server, as JSON, must lack the resource or version, and no
CustomResourceDefinition of it may exist.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from . import discovery
from .api_errors import is_status_object
from .api_server_access import ApiServerAccess
from .connection import METADATA, METADATA_LIST, ApiReply

DEFINITIONS_GROUP = "apiextensions.k8s.io"
_DEFINITIONS = f"/apis/{DEFINITIONS_GROUP}/v1/customresourcedefinitions"

#: Paths that every API server has.
_ALWAYS = ("/api", "/apis", "/version")

#: A path of an API version, of the objects of a resource, or of one object; a namespace is an object itself.
_PATH = re.compile(
    r"(?:/api|/apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/[^/]+(?=/(?!(?:status|finalize)$)))?(?:/(?P<resource>[^/]+)(?P<object>/.+)?)?"
)

#: Reason of the ApiError, without a status, for a 404 that is not confirmed.
UNCONFIRMED = "Unconfirmed"

#: How long the discovery may still have a kind whose definition was deleted, and the time between requests, seconds.
_LAG = 10.0
_PAUSE = 0.5

#: GET a path, with request()'s option ``accept``: the JSON of the reply. Raises ApiError.
Get = Callable[..., Any]


def unconfirmed_absence(what: str, access: ApiServerAccess, doubt: str) -> ApiError:
    """Return the error for a 404 that is not confirmed. doubt: see why_it_may_exist()."""
    text = f"{what}: {access.server} answers 404, which does not show that nothing is there: {doubt}"
    return ApiError(text, reason=UNCONFIRMED)


def why_it_may_exist(get: Get, method: str, path: str, reply: ApiReply) -> str:
    """Return why the 404 in ``reply`` does not mean that ``path`` does not exist; empty if it does mean that.

    Raises AccessError.
    """
    asked = _PATH.fullmatch(path)
    if asked is None:
        return "every API server has this path" if path in _ALWAYS else ""
    if is_status_object(reply) and (method != "GET" or asked["object"]):
        return ""
    try:
        return _why_resource_may_exist(get, asked)
    except ApiError as error:
        return str(error)


def _why_resource_may_exist(get: Get, asked: re.Match[str]) -> str:
    deadline = time.monotonic() + _LAG
    while _is_discovered(get, asked):
        if time.monotonic() > deadline or not _may_be_deleted(get, asked):
            return f"its API discovery has {asked['resource'] or asked['version']}"
        time.sleep(_PAUSE)
    definition = _existing_definition(get, asked)
    return f"there is a CustomResourceDefinition {definition}" if definition else ""


def _may_be_deleted(get: Get, asked: re.Match[str]) -> bool:
    """Return whether the definition of what the discovery has may have been deleted a moment ago."""
    try:
        return _may_be_defined(asked) and not (asked["resource"] and _existing_definition(get, asked))
    except ApiError:
        return False


def _is_discovered(get: Get, asked: re.Match[str]) -> bool:
    """Return whether the discovery has a resource, or, for a path without one, a version. Raises ApiError."""
    version = f"{asked['group']}/{asked['version']}" if asked["group"] else asked["version"]
    base = "/apis" if asked["group"] else "/api"
    if not asked["resource"]:
        document = get(base)
        with expect_documented_form(f"GET {base}", document):
            return version in discovery.versions_in_group_list(document)
    try:
        document = get(f"{base}/{version}")
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    with expect_documented_form(f"GET {base}/{version}", document):
        return any(entry["name"] == asked["resource"] for entry in document["resources"])


def _may_be_defined(asked: re.Match[str]) -> bool:
    """Return whether a group may come from CustomResourceDefinitions."""
    return "." in (asked["group"] or "") and asked["group"] != DEFINITIONS_GROUP


def _existing_definition(get: Get, asked: re.Match[str]) -> str:
    """Return the name of the definition of a resource, of any of its group for a version; empty if there is none.

    Who may not read definitions relies on the discovery alone. Raises ApiError.
    """
    if not _may_be_defined(asked):
        return ""
    try:
        if asked["resource"]:
            name = f"{asked['resource']}.{asked['group']}"
            get(f"{_DEFINITIONS}/{name}", accept=METADATA)
            return name
        if asked["group"] in _discovered_groups(get):
            return ""  # its definitions may have other versions now
        page = get(_DEFINITIONS, accept=METADATA_LIST)
        with expect_documented_form(f"GET {_DEFINITIONS}", page):
            # An empty list of metadata has null as its items.
            names = [str(item["metadata"]["name"]) for item in page["items"] or ()]
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return ""
    return next((name for name in names if name.partition(".")[2] == asked["group"]), "")


def _discovered_groups(get: Get) -> list[str]:
    document = get("/apis")
    with expect_documented_form("GET /apis", document):
        return [version.partition("/")[0] for version in discovery.versions_in_group_list(document)]
