# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between BMC vendors, as data: options of the Redfish standard, and deviations of firmware from it.

The vendor's name is ``Vendor`` of the service root (or the name of its Oem object), or ``Manufacturer`` of a System.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name


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
