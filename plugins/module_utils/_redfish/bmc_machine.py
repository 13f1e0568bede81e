# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine through its BMC, in terms of desired states: off, or booted once from an image.

The requests are those of community.general's Redfish modules (their RedfishUtils), which support many BMCs. Those
modules handle one machine per task. Here machines are handled in parallel, temporarily refused requests are repeated
until a deadline, and the state is verified by reading it from the BMC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._redfish.vendor_traits import STANDARD, Traits, traits

#: Seconds between two attempts of a temporarily refused request, and between two queries of a state.
PAUSE = 2.0


@dataclass(frozen=True)
class Bmc:
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


class _Caller:
    """The object that RedfishUtils uses as AnsibleModule: one module handles many machines here."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = dict(params)

    def fail_json(self, msg: str, **_rest: Any) -> None:
        """Raise instead of ending the process."""
        raise AccessError(msg)


class Machine:
    """A machine. Every method returns when the BMC reports the requested state, or raises a SeatrialError."""

    def __init__(
        self,
        bmc: Bmc,
        params: Mapping[str, Any],
        deadline: float,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """params: validate_certs, ca_path, timeout (s of one request), contact_timeout (s until the first response),
        vendors. deadline: a reading of time.monotonic().
        """
        from ansible_collections.community.general.plugins.module_utils.redfish_utils import RedfishUtils

        self.bmc = bmc
        self.deadline = deadline
        self.contact = min(deadline, time.monotonic() + float(params.get("contact_timeout") or 120))
        self.say = say
        self.sleep = sleep
        self.given = params
        self.traits: Traits = STANDARD
        self.cleared = False
        self.media_of = "Systems"
        self.utils = RedfishUtils(
            {"user": bmc.user, "pswd": bmc.password, "token": None},
            bmc.root(),
            int(params.get("timeout") or 30),
            _Caller({"validate_certs": params.get("validate_certs", True), "ca_path": params.get("ca_path")}),
            bmc.system or None,
            True,
        )

    def find(self) -> None:
        """Find the System, its Manager and the vendor."""
        self._do("find its system", self.utils._find_systems_resource, ensure=False)
        system = self.system()
        managers = (system.get("Links") or {}).get("ManagedBy") or []
        self.utils.manager_uri = managers[0]["@odata.id"] if managers else ""
        vendor = self.utils._get_vendor()
        names = [str(vendor.get("Vendor") or ""), str(system.get("Manufacturer") or "")]
        self.traits = traits([one for one in names if one], self.given.get("vendors") or {})

    def system(self) -> dict[str, Any]:
        """Return the current System resource."""
        uri = self.utils.root_uri + self.utils.systems_uri
        return self._do("read its system", lambda: self.utils.get_request(uri))["data"]

    def media(self) -> list[dict[str, Any]]:
        """Return the virtual media, each with ``uri``, of the first resource that has some."""
        for where in self._media_at():
            base = self.utils.systems_uri if where == "Systems" else self.utils.manager_uri
            uri = self.utils.root_uri + base
            data = self._do("read its virtual media", partial(self.utils.get_request, uri))
            if "VirtualMedia" not in data["data"]:
                continue
            self.media_of = where
            return self._members(data["data"]["VirtualMedia"]["@odata.id"])
        raise AccessError(f"{self.bmc.name}: its BMC {self.bmc.address} has no virtual media")

    def _members(self, uri: str) -> list[dict[str, Any]]:
        listed = self._do("list its virtual media", lambda: self.utils.get_request(self.utils.root_uri + uri))
        found = []
        for member in listed["data"].get("Members", []):
            path = self.utils.root_uri + member["@odata.id"]
            one = self._do("read its virtual media", partial(self.utils.get_request, path))
            found.append({**one["data"], "uri": member["@odata.id"]})
        return found

    def _media_at(self) -> list[str]:
        return [one for one in self.traits.media_at if one == "Systems" or self.utils.manager_uri]

    def state(self) -> dict[str, Any]:
        """Return power, boot override and inserted media."""
        system = self.system()
        boot = system.get("Boot") or {}
        inserted = [str(one.get("Image")) for one in self.media() if one.get("Inserted") and one.get("Image")]
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
        command = "PowerOn" if wanted == "On" else "PowerForceOff"
        if self.system().get("PowerState") == wanted:
            return False
        self._do(f"power {wanted.lower()}", lambda: self.utils.manage_system_power(command))
        while self.system().get("PowerState") != wanted:
            self._pause(f"power is not {wanted} yet")
        return True

    def eject(self, keep: str = "") -> bool:
        """Eject all media except image ``keep``; return whether any was ejected."""
        changed = False
        for one in self.media():
            image = one.get("Image")
            if not one.get("Inserted") or not image or image == keep:
                continue
            self.say(f"{self.bmc.name}: ejects {image}")
            where = {"image_url": image}
            self._do("eject media", partial(self.utils.virtual_media_eject, where, self.media_of))
            changed = True
        while changed and any(one.get("Inserted") and one.get("Image") not in (None, "", keep) for one in self.media()):
            self._pause("media is not ejected yet")
        return changed

    def insert(self, image: str) -> bool:
        """Insert an image and eject other media; return whether anything changed."""
        changed = self.eject(keep=image)
        if any(one.get("Inserted") and one.get("Image") == image for one in self.media()):
            return changed
        options = {"image_url": image, "media_types": list(self.traits.media_types), "inserted": True}
        options["write_protected"] = True
        self._do("insert media", lambda: self.utils.virtual_media_insert(options, self.media_of))
        while not any(one.get("Inserted") and one.get("Image") == image for one in self.media()):
            self._pause("media is not inserted yet")
        return True

    def boot_once(self) -> None:
        """Boot from the virtual CD at the next boot only."""
        boot = self.system().get("Boot") or {}
        allowed = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") or self.traits.boot_device
        device = next((one for one in self.traits.boot_device if one in allowed), self.traits.boot_device[0])
        options = {"bootdevice": device, "override_enabled": "Once"}
        self._do("boot from the virtual CD once", lambda: self.utils.set_boot_override(options))
        while (self.system().get("Boot") or {}).get("BootSourceOverrideTarget") != device:
            self._pause(f"the boot override is not {device} yet")

    def boot_as_usual(self) -> None:
        """Disable the boot override, if it is set."""
        if (self.system().get("Boot") or {}).get("BootSourceOverrideTarget") in self.traits.boot_device:
            options = {"override_enabled": "Disabled"}
            self._do("boot as usual", lambda: self.utils.set_boot_override(options))

    # Retries

    def _do(self, what: str, call: Callable[[], dict[str, Any]], ensure: bool = True) -> dict[str, Any]:
        """Repeat ``call`` until it succeeds or fails permanently. Raises AccessError, WaitTimeout."""
        while True:
            reply = call()
            if reply.get("ret"):
                self.contact = self.deadline
                return reply
            cause = str(reply.get("msg") or "no reason given")
            if not self._is_temporary(reply, cause):
                raise AccessError(f"{self.bmc.name}: can't {what}: its BMC {self.bmc.address} reports: {cause}")
            self._clear_jobs(ensure)
            self._pause(f"can't {what} yet: {cause}")

    def _is_temporary(self, reply: Mapping[str, Any], cause: str) -> bool:
        status = reply.get("status")
        if status in (401, 403, 404):
            return False
        if status is None:  # no response: a BMC may be restarting, but a wrong certificate is permanent
            return "certificate" not in cause.lower() and "name or service" not in cause.lower()
        return status in self.traits.busy_statuses or (
            status in (400, 500) and any(word in cause.lower() for word in self.traits.busy_words)
        )

    def _clear_jobs(self, allowed: bool) -> None:
        action = self.traits.clear_jobs
        if action and allowed and not self.cleared:
            self.cleared = True
            self.say(f"{self.bmc.name}: clears the job queue of its BMC")
            self.utils.post_request(self.utils.root_uri + action["path"], dict(action.get("body") or {}))

    def _pause(self, why: str) -> None:
        if time.monotonic() + PAUSE > self.contact:
            raise WaitTimeout(f"{self.bmc.name}: timeout: {why} (BMC {self.bmc.address})")
        self.sleep(PAUSE)
