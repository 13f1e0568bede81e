# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine through its BMC, in terms of desired states: off, or booted once from an image.

Temporarily refused requests are repeated until a deadline, and the state is verified by reading it from the BMC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    WaitTimeout,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpRefused, NoAnswer

from .bmc_requests_and_vendors import SERVICE_ROOT, STANDARD, BmcRequests, VendorTraits, traits_of_vendor

#: Seconds between two attempts of a temporarily refused request, and between two queries of a state.
PAUSE = 2.0

#: Statuses of permanent refusals: credentials, rights, paths.
DENIED = (401, 403, 404)

#: Power state -> types of reset that lead to it, in order of preference.
RESETS = {"On": ("On", "ForceOn"), "Off": ("ForceOff", "GracefulShutdown")}

Result = TypeVar("Result")


@dataclass(frozen=True)
class BmcConnection:
    """The BMC of a machine. system: the Id of the machine's System, if the BMC has several."""

    name: str
    address: str
    user: str
    password: str = field(repr=False)
    system: str = ""

    def root(self) -> str:
        """Return the address as a URL without a path."""
        text = self.address if "://" in self.address else f"https://{self.address}"
        return text.split("/redfish", maxsplit=1)[0].rstrip("/")


class RedfishMachine:
    """A machine. Every method returns when the BMC reports the requested state, or raises a SeatrialError."""

    def __init__(
        self,
        bmc: BmcConnection,
        params: Mapping[str, Any],
        deadline: float,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """params: validate_certs, ca_path, timeout (s of one request), contact_timeout (s until the first response),
        vendors. deadline: a reading of time.monotonic().
        """
        self.bmc = bmc
        self.deadline = deadline
        self.contact = min(deadline, time.monotonic() + float(params.get("contact_timeout") or 120))
        self.say = say
        self.sleep = sleep
        self.given = params
        self.traits: VendorTraits = STANDARD
        self.cleared = False
        self.system_path = ""
        self.manager_path = ""
        self.requests = BmcRequests(bmc.root(), bmc.user, bmc.password, params)

    def find(self) -> None:
        """Find the System, its Manager and the vendor. Raises InputError unless one System is meant."""
        root, self.system_path = self._do("find its system", self._found, ensure=False)
        system = self.system()
        managers = (system.get("Links") or {}).get("ManagedBy") or []
        self.manager_path = managers[0]["@odata.id"] if managers else ""
        vendor = root.get("Vendor") or next(iter(root.get("Oem") or {}), "")
        names = ["HPE" if vendor == "Hp" else str(vendor), str(system.get("Manufacturer") or "")]
        self.traits = traits_of_vendor([name for name in names if name], self.given.get("vendors") or {})

    def _found(self) -> tuple[dict[str, Any], str]:
        root = self.requests.get(SERVICE_ROOT)
        listed = self.requests.get((root.get("Systems") or {}).get("@odata.id") or SERVICE_ROOT + "Systems")
        paths = [member["@odata.id"] for member in listed.get("Members") or []]
        if not paths:
            raise AccessError("it lists no System")
        if len(paths) == 1 and not self.bmc.system:
            return root, paths[0]
        by_id = {str(self.requests.get(path).get("Id")): path for path in paths}
        if self.bmc.system not in by_id:
            problem = (
                f"'{self.bmc.system}' is not one of them{suggest_similar_name(self.bmc.system, by_id)}"
                if self.bmc.system
                else ""
            )
            raise InputError(
                f"{self.bmc.name}: its BMC {self.bmc.address} has the Systems {', '.join(by_id)}; "
                f"{problem or 'name one as bmc_system in the inventory'}"
            )
        return root, by_id[self.bmc.system]

    def system(self) -> dict[str, Any]:
        """Return the current System resource."""
        return self._do("read its system", partial(self.requests.get, self.system_path))

    def media(self) -> list[dict[str, Any]]:
        """Return the virtual media, each with ``uri``, of the first resource that has some."""
        for where in self.traits.media_at:
            path = self.system_path if where == "Systems" else self.manager_path
            resource = self._do("read its virtual media", partial(self.requests.get, path)) if path else {}
            if "VirtualMedia" in resource:
                return self._members(resource["VirtualMedia"]["@odata.id"])
        raise AccessError(f"{self.bmc.name}: its BMC {self.bmc.address} has no virtual media")

    def _members(self, path: str) -> list[dict[str, Any]]:
        listed = self._do("list its virtual media", partial(self.requests.get, path))
        uris = [member["@odata.id"] for member in listed.get("Members") or []]
        return [{**self._do("read its virtual media", partial(self.requests.get, uri)), "uri": uri} for uri in uris]

    def state(self) -> dict[str, Any]:
        """Return power, boot override and inserted media."""
        system = self.system()
        boot = system.get("Boot") or {}
        inserted = [
            str(medium.get("Image")) for medium in self.media() if medium.get("Inserted") and medium.get("Image")
        ]
        return {
            "name": self.bmc.name,
            "power": system.get("PowerState"),
            "boot": boot.get("BootSourceOverrideTarget"),
            "override": boot.get("BootSourceOverrideEnabled"),
            "media": inserted,
        }

    # Desired states

    def power(self, wanted: str) -> bool:
        """Power ``On`` or ``Off`` and wait for this state; return whether it changed."""
        system = self.system()
        if system.get("PowerState") == wanted:
            return False
        self._do(f"power {wanted.lower()}", partial(self._reset, system, RESETS[wanted]))
        while self.system().get("PowerState") != wanted:
            self._pause(f"power is not {wanted} yet")
        return True

    def _reset(self, system: Mapping[str, Any], types: tuple[str, ...]) -> None:
        action = _find_resource_action(system, "#ComputerSystem.Reset")
        if not action:
            raise AccessError("the System has no action Reset")
        allowed = action.get("ResetType@Redfish.AllowableValues")
        if "@Redfish.ActionInfo" in action:
            parameters = self.requests.get(action["@Redfish.ActionInfo"]).get("Parameters") or []
            allowed = next(
                (parameter.get("AllowableValues") for parameter in parameters if parameter.get("Name") == "ResetType"),
                allowed,
            )
        chosen = next((type_ for type_ in types if type_ in (allowed or ())), types[0])
        self.requests.post(action["target"], {"ResetType": chosen})

    def eject(self, keep: str = "") -> bool:
        """Eject all media except image ``keep``; return whether any was ejected."""
        changed = False
        for medium in self.media():
            image = medium.get("Image")
            if not medium.get("Inserted") or not image or image == keep:
                continue
            self.say(f"{self.bmc.name}: ejects {image}")
            self._do("eject media", partial(self._eject, medium))
            changed = True
        while changed and any(
            medium.get("Inserted") and medium.get("Image") not in (None, "", keep) for medium in self.media()
        ):
            self._pause("media is not ejected yet")
        return changed

    def insert(self, image: str) -> bool:
        """Insert an image and eject other media; return whether anything changed."""
        changed = self.eject(keep=image)
        if any(medium.get("Inserted") and medium.get("Image") == image for medium in self.media()):
            return changed
        self._insert(self._free_slot(), image)
        while not any(medium.get("Inserted") and medium.get("Image") == image for medium in self.media()):
            self._pause("media is not inserted yet")
        return True

    def _eject(self, media: Mapping[str, Any]) -> None:
        action = _find_resource_action(media, "#VirtualMedia.EjectMedia")
        if action:
            self.requests.post(action["target"], {})
        else:
            self.requests.patch(media["uri"], {"Image": None, "Inserted": False})

    def _insert(self, media: Mapping[str, Any], image: str) -> None:
        action = _find_resource_action(media, "#VirtualMedia.InsertMedia")
        send = partial(self.requests.post, action["target"]) if action else partial(self.requests.patch, media["uri"])
        more = {name: True for name in ("Inserted", "WriteProtected") if name in media}
        try:
            self._do("insert media", partial(send, {"Image": image, **more}))
        except HttpRefused as error:
            if not more or error.status in DENIED:
                raise
            self._do("insert media", partial(send, {"Image": image}))  # all that some older BMCs accept

    def _free_slot(self) -> dict[str, Any]:
        """Return virtual media of a wanted type without an image, or without types."""
        wanted = set(self.traits.media_types)
        free = [
            medium
            for medium in self.media()
            if not medium.get("Inserted")
            and not medium.get("ImageName")
            and not any(part in medium["uri"] for part in self.traits.media_unusable)
        ]
        for medium in free:
            if wanted.intersection(medium.get("MediaTypes") or ()):
                return medium
        for medium in free:
            if not wanted or "MediaTypes" not in medium:
                return medium
        raise AccessError(f"{self.bmc.name}: its BMC {self.bmc.address} has no free virtual media of {sorted(wanted)}")

    def boot_once(self) -> None:
        """Boot from the virtual CD at the next boot only."""
        boot = self.system().get("Boot") or {}
        allowed = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") or self.traits.boot_device
        device = next((device for device in self.traits.boot_device if device in allowed), self.traits.boot_device[0])
        self._do("boot from the virtual CD once", partial(self._override, "Once", device))
        while (self.system().get("Boot") or {}).get("BootSourceOverrideTarget") != device:
            self._pause(f"the boot override is not {device} yet")

    def boot_as_usual(self) -> None:
        """Disable the boot override, if it is set."""
        if (self.system().get("Boot") or {}).get("BootSourceOverrideTarget") in self.traits.boot_device:
            self._do("boot as usual", partial(self._override, "Disabled", "None"))

    def _override(self, enabled: str, target: str) -> None:
        boot = {"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
        self.requests.patch(self.system_path, {"Boot": boot})

    # Retries

    def _do(self, what: str, call: Callable[[], Result], ensure: bool = True) -> Result:
        """Repeat ``call`` until it succeeds or fails permanently. Raises AccessError, WaitTimeout."""
        while True:
            try:
                result = call()
            except AccessError as error:
                if not self._is_temporary(error):
                    raise self._final(what, error) from error
                self._clear_jobs(ensure)
                self._pause(f"can't {what} yet: {error}")
            else:
                self.contact = self.deadline
                return result

    def _final(self, what: str, error: AccessError) -> AccessError:
        text = f"{self.bmc.name}: can't {what}: its BMC {self.bmc.address} reports: {error}"
        if isinstance(error, HttpRefused):
            return HttpRefused(text, error.reply, error.explanation)
        return AccessError(text)

    def _is_temporary(self, error: AccessError) -> bool:
        if not isinstance(error, HttpRefused):  # a BMC may be restarting, but a wrong certificate is permanent
            return not (isinstance(error, NoAnswer) and error.permanent)
        if error.status in DENIED:
            return False
        told = error.explanation.lower()
        return error.status in self.traits.busy_statuses or (
            error.status in (400, 500) and any(word in told for word in self.traits.busy_words)
        )

    def _clear_jobs(self, allowed: bool) -> None:
        action = self.traits.clear_jobs
        if action and allowed and not self.cleared:
            self.cleared = True
            self.say(f"{self.bmc.name}: clears the job queue of its BMC")
            with suppress(AccessError):  # the request that is repeated shows whether it helped
                self.requests.post(action["path"], dict(action.get("body") or {}))

    def _pause(self, why: str) -> None:
        if time.monotonic() + PAUSE > self.contact:
            raise WaitTimeout(f"{self.bmc.name}: timeout: {why} (BMC {self.bmc.address})")
        self.sleep(PAUSE)


def _find_resource_action(resource: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an action of a resource; {} if it has none of this name with a target."""
    action = (resource.get("Actions") or {}).get(name) or {}
    return action if "target" in action else {}
