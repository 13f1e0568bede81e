# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between makers of BMCs, as data.

What the Redfish standard leaves open and what firmware does otherwise than the standard. Names are those that a service
root gives as ``Vendor`` (or as the name of its Oem object), or a System as ``Manufacturer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest


@dataclass(frozen=True)
class Traits:
    """How to treat one maker's BMCs.

    media_at: resources that have the virtual media, in the order in which they are looked at (it moved from Manager to
    System in Redfish 1.12). boot_device: what to boot from once, of Boot's allowable values the first that is there.
    busy_statuses: answers that mean "later"; busy_words: words that
    make a 400 or 500 one. clear_jobs: POST that empties a job
    queue which stays busy: path and body. off_before_media: some lose media that is inserted while they run.
    """

    media_at: tuple[str, ...] = ("Systems", "Manager")
    media_types: tuple[str, ...] = ("CD", "DVD")
    boot_device: tuple[str, ...] = ("Cd", "UsbCd")
    busy_statuses: tuple[int, ...] = (409, 423, 429, 502, 503, 504)
    busy_words: tuple[str, ...] = ("busy", "in progress", "not ready", "try again", "retry", "is being", "pending")
    clear_jobs: Mapping[str, Any] | None = None
    off_before_media: bool = False


STANDARD = Traits()

#: Part of the name in small letters -> traits.
VENDORS: dict[str, Traits] = {
    # The queue of configuration jobs keeps a boot override from being set until it is empty.
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
    "lenovo": replace(STANDARD, media_at=("Systems", "Manager")),
    "fujitsu": replace(STANDARD, off_before_media=True),
}


def traits(names: list[str], more: Mapping[str, Mapping[str, Any]]) -> Traits:
    """Return the traits of the maker that one of these names is of; those that a user gave come after ours.

    more: part of a name -> field -> value, as in setting cluster_agent_vendors. Raises InputError for unknown fields.
    """
    found = STANDARD
    for name in names:
        known = next((one for part, one in VENDORS.items() if part in name.lower()), None)
        if known:
            found = known
            break
    for part, values in more.items():
        checked = _checked(part, values)
        if part.lower() == "all" or any(part.lower() in name.lower() for name in names):
            found = replace(found, **checked)
    return found


def _checked(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    known = [one.name for one in fields(Traits)]
    for name in values:
        if name not in known:
            raise InputError(
                f"vendor {part}: '{name}' is none of its traits{nearest(name, known)}; known: {', '.join(known)}"
            )
    return {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
