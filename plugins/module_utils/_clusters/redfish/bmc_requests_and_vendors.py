# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish requests to one BMC, with errors in its own words, and the differences between vendors of BMCs, as data.

The vendor's name is ``Vendor`` of the service root (or the name of its Oem object), or ``Manufacturer`` of a System.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
    require_json_object,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import (
    HttpClient,
    HttpClock,
    HttpPolicy,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRefused,
    HttpReply,
    basic_authorization_header,
    error_for_refused_request,
)


@dataclass(frozen=True)
class VendorTraits:
    """The behaviour of one vendor's BMCs.

    media_at: resources that may have the virtual media, in order of search (it moved from Manager to System in Redfish
    1.12). boot_device: targets of the boot override; the first allowable value is used. busy_statuses: HTTP statuses of
    a temporary error; busy_words: words that make a 400 or 500 temporary. clear_jobs: path and body of the POST that
    clears a job queue which stays busy. off_before_media: whether media that is inserted while a machine runs is lost.
    media_unusable: parts of the paths of virtual media that accept no image.
    """

    media_at: tuple[str, ...] = ("Systems", "Manager")
    media_types: tuple[str, ...] = ("CD", "DVD")
    boot_device: tuple[str, ...] = ("Cd", "UsbCd")
    busy_statuses: tuple[int, ...] = (409, 423, 429, 502, 503, 504)
    busy_words: tuple[str, ...] = ("busy", "in progress", "not ready", "try again", "retry", "is being", "pending")
    clear_jobs: Mapping[str, Any] | None = None
    off_before_media: bool = False
    media_unusable: tuple[str, ...] = ()


STANDARD = VendorTraits()

#: Part of the vendor's name in lower case -> traits.
VENDORS: dict[str, VendorTraits] = {
    # A boot override can be set only if the queue of configuration jobs is empty.
    "dell": replace(
        STANDARD,
        busy_words=(*STANDARD.busy_words, "job", "lifecycle controller", "sys518"),
        clear_jobs={
            "path": "/redfish/v1/Dell/Managers/iDRAC.Embedded.1/DellJobService/Actions/DellJobService.DeleteJobQueue",
            "body": {"JobID": "JID_CLEARALL_FORCE"},
        },
    ),
    "hpe": replace(STANDARD, media_at=("Manager", "Systems")),
    "supermicro": replace(STANDARD, media_at=("Manager", "Systems"), boot_device=("UsbCd", "Cd")),
    "lenovo": replace(STANDARD, media_unusable=("RDOC", "Remote")),
    "fujitsu": replace(STANDARD, off_before_media=True),
}


def traits_of_vendor(names: list[str], more: Mapping[str, Mapping[str, Any]]) -> VendorTraits:
    """Return the traits of the vendor with one of these names, with the overrides of the user.

    more: part of a vendor's name -> field -> value, as in setting cluster_agent_vendors. Raises InputError for an
    unknown field.
    """
    vendor_traits = STANDARD
    for name in names:
        known = next((vendor for part, vendor in VENDORS.items() if part in name.lower()), None)
        if known:
            vendor_traits = known
            break
    for part, values in more.items():
        checked = _check_trait_names(part, values)
        if part.lower() == "all" or any(part.lower() in name.lower() for name in names):
            vendor_traits = replace(vendor_traits, **checked)
    return vendor_traits


def _check_trait_names(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    known = [field.name for field in fields(VendorTraits)]
    for name in values:
        if name not in known:
            raise InputError(
                f"vendor {part}: '{name}' is an unknown trait{suggest_similar_name(name, known)}; known:"
                f" {', '.join(known)}"
            )
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


#: The only path that the standard fixes; all others are read from documents. It needs no credentials.
SERVICE_ROOT = "/redfish/v1/"

#: Seconds for which a document is read again while the BMC answers with a server error (5xx): four attempts.
RETRY_TIME = 10.0
#: Largest document of a BMC, in bytes.
MOST_BYTES = 16 << 20


class BmcRequests:
    """Requests to the BMC at ``root`` (a URL without a path).

    Each raises HttpRefused with the BMC's message if the BMC refuses, AccessError without a complete response.
    """

    def __init__(
        self, root: str, user: str, password: str, params: Mapping[str, Any], clock: HttpClock | None = None
    ) -> None:
        """params: validate_certs, ca_path, timeout in seconds. Raises InputError for an unusable ca_path or address."""
        self._http = HttpClient(
            "BMC",
            root,
            basic_authorization_header(user, password),
            str(params.get("ca_path") or ""),
            insecure=not params.get("validate_certs", True),
            headers={"Accept": "application/json", "OData-Version": "4.0"},
            policy=HttpPolicy(
                timeout=float(params.get("timeout") or 30),
                retry_time=RETRY_TIME,
                max_bytes=MOST_BYTES,
            ),
            clock=clock,
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return the document at ``path``."""
        return self._read(path)[0]

    def post(self, path: str, document: Mapping[str, Any]) -> None:
        """Start an action."""
        self._send("POST", path, document)

    def patch(self, path: str, document: Mapping[str, Any]) -> None:
        """Change properties of a resource, if it did not change since it was read."""
        current, tag = self._read(path)
        tag = tag or str(current.get("@odata.etag") or "")
        self._send("PATCH", path, document, {"If-Match": tag} if tag else {})

    def _read(self, path: str) -> tuple[dict[str, Any], str]:
        """Return the document at ``path`` and its ETag ("" without one)."""
        reply = self._send("GET", path)
        try:
            document = parse_json(reply.content)
        except ValueError as error:
            raise AccessError(f"GET {path}: {error}") from error
        return _checked_resource(f"GET {path}", document), reply.headers.get("etag", "")

    def _send(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpReply:
        """Send a request. A busy BMC answers with 5xx now and then: a document is read again, an action is not."""
        what = f"{method} {path}"
        if not path.startswith("/"):
            raise AccessError(f"{what}: the path in its response does not begin with /")
        try:
            return self._http.send(
                method,
                path,
                document,
                headers=headers,
                authorization="" if path == SERVICE_ROOT else None,
                repeat="refused" if method == "GET" else "unsent",
                retry_time=None if method == "GET" else 0.0,
                what=what,
            )
        except HttpRefused as error:
            raise error_for_refused_request(what, error.reply, _error_response_message(error.reply.text)) from error


def _checked_resource(what: str, document: Any) -> dict[str, Any]:
    """Return a resource whose references and actions can be followed. Raises AccessError for another document."""
    resource = require_json_object(what, document, ("Members", "Parameters"))
    for key in ("Actions", "Boot", "Links", "Oem", "Systems", "VirtualMedia"):
        require_json_object(f"{what}: {key}", resource.get(key) or {})
    with expect_documented_form(what, resource):
        managers = require_list_of_json_objects(
            f"{what}: ManagedBy", (resource.get("Links") or {}).get("ManagedBy") or []
        )
        media = [resource["VirtualMedia"]] if "VirtualMedia" in resource else []
        for reference in (*(resource.get("Members") or ()), *managers, *media):
            reference["@odata.id"] = str(reference["@odata.id"])
        if systems := resource.get("Systems"):
            systems["@odata.id"] = str(systems.get("@odata.id") or "")
        for name, action in (resource.get("Actions") or {}).items():
            require_json_object(f"{what}: action {name}", action or {})
    return resource


def _error_response_message(body: str) -> str:
    """Return the message of an error response, "" if it has none."""
    try:
        error = parse_json(body)["error"]
        details = error.get("@Message.ExtendedInfo") or []
        texts = [detail.get("Message") for detail in ([details] if isinstance(details, dict) else details)]
        return "; ".join(str(text) for text in texts if text) or str(error.get("message") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
