# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a cluster access to a registry, and put everything back.

The inventory, a file of the run, names every change before it is made. It holds no credentials: of the pull secret only
salted hashes, by which a later session recognizes what it finds.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import title

from . import machine_config_pools, mirror_sets, pull_secret

FILE, SCHEMA = "registry.json", "registry/1"
NAMESPACE, NAME, KEY = "openshift-config", "pull-secret", ".dockerconfigjson"
_DELETION = 60.0


class RegistryAccess:
    """The access of one cluster. path: of the inventory. timeout: in seconds. settle: see machine_config_pools.wait."""

    def __init__(
        self, client: Client, path: Path, run_id: str, timeout: float, settle: float, say: waiting.Say
    ) -> None:
        self.client, self.path, self.run_id, self.say = client, path, run_id, say
        self.timeout, self.settle = timeout, settle

    def give(self, credentials: str, mirrors: Sequence[Mapping[str, Any]], check: bool = False) -> bool:
        """Merge credentials (a dockerconfigjson, or empty) into the pull secret, create mirrors, wait for all machines.

        Returns whether anything changes. Everything is checked before the first change. Raises InputError,
        OwnershipError, ProcessError, WaitTimeout.
        """
        machine_config_pools.refuse_unable(self.client)
        inventory = self._read()
        wanted = pull_secret.auths(credentials, "the pull secret for the registry") if credentials else {}
        sets = mirror_sets.manifests(mirrors, self.run_id, mirror_sets.kinds(self.client)) if mirrors else []
        missing = [one for one in sets if not self._is_there(one)]
        secret, text = self._secret() if wanted else ({}, "")
        result = pull_secret.merged(text, wanted) if wanted else ""
        changes = bool(missing) or result != text
        if check or not (changes or inventory.get("pending")):
            return changes
        if result != text:
            inventory["secret"] = _noted(inventory.get("secret"), text, result, pull_secret.added(text, wanted))
        known = [one["manifest"] for one in inventory["mirrors"]]
        inventory["mirrors"] += [{"manifest": one} for one in missing if one not in known]
        files.write_json(self.path, {**inventory, "pending": True}, SCHEMA)
        if result != text:
            self._write(secret, result)
            self.say(f"credentials for {', '.join(inventory['secret']['registries'])} are in the pull secret")
        for one in missing:
            self.client.create(one)
            self.say(f"created {title(one)}")
        machine_config_pools.wait(self.client, self.timeout, self.settle, self.say)
        files.write_json(self.path, {**inventory, "pending": False}, SCHEMA)
        return changes

    def back(self, check: bool = False) -> bool:
        """Put back what give() changed, as often as necessary. Returns whether anything changes.

        Raises OwnershipError, after all else was put back, for what somebody else has changed since.
        """
        inventory = self._read()
        noted = bool(inventory["mirrors"] or inventory.get("secret"))
        if check or not noted:
            return noted
        left: list[str] = []
        changed = [self._remove_mirrors(one, left) for one in inventory["mirrors"]]
        if inventory.get("secret"):
            changed.append(self._restore_secret(inventory["secret"], left))
        machine_config_pools.wait(self.client, self.timeout, self.settle, self.say)
        if left:
            raise OwnershipError(
                f"{'. '.join(left)}. Nothing of this was touched. Remove what this run added, then run this again: "
                f"{self.path} lists it"
            )
        self.path.unlink(missing_ok=True)
        return any(changed)

    def _read(self) -> dict[str, Any]:
        return dict(files.read_json(self.path)) if self.path.exists() else {"schema": SCHEMA, "mirrors": []}

    def _secret(self) -> tuple[dict[str, Any], str]:
        found = self.client.get(self.client.kind("v1", "Secret"), NAME, NAMESPACE)
        data = ((found or {}).get("data") or {}).get(KEY)
        if found is None or data is None:
            raise InputError(f"the cluster has no Secret {NAMESPACE}/{NAME} with {KEY}")
        return found, base64.b64decode(data).decode()

    def _write(self, secret: Mapping[str, Any], text: str) -> None:
        """Replace the content, unless somebody has changed the Secret since it was read. Raises OwnershipError."""
        version = secret["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "data": {KEY: base64.b64encode(text.encode()).decode()}}
        path = self.client.kind("v1", "Secret").path(NAMESPACE, NAME)
        try:
            self.client.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != 409:
                raise
            raise OwnershipError(f"somebody changed Secret {NAMESPACE}/{NAME} at the same moment: run again") from error

    def _is_there(self, wanted: Mapping[str, Any]) -> bool:
        found = self._mirror_set(wanted)
        if found is not None and not _same(found, wanted):
            raise OwnershipError(f"{title(found)} exists and is another one: remove it first")
        return found is not None

    def _mirror_set(self, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = self.client.kind(wanted["apiVersion"], wanted["kind"])
        return self.client.get(kind, wanted["metadata"]["name"])

    def _remove_mirrors(self, entry: Mapping[str, Any], left: list[str]) -> bool:
        wanted = entry["manifest"]
        found = self._mirror_set(wanted)
        if found is None:
            return False
        if not _same(found, wanted):
            left.append(f"somebody changed {title(found)} since this run created it")
            return False
        kind = self.client.kind(wanted["apiVersion"], wanted["kind"])
        self.client.delete_seen(kind, wanted["metadata"]["name"], "", found["metadata"]["uid"])
        waiting.wait_until_gone(lambda: [title(found)] if self._mirror_set(wanted) else [], _DELETION)
        self.say(f"removed {title(found)}")
        return True

    def _restore_secret(self, entry: Mapping[str, Any], left: list[str]) -> bool:
        secret, text = self._secret()
        now = _hashed(entry["salt"], text)
        if now == entry["before"] or not _ours(entry) & set(pull_secret.auths(text, f"Secret {NAMESPACE}/{NAME}")):
            return False
        names = next((one["registries"] for one in entry["states"] if one["after"] == now), None)
        if names is None:
            left.append(_changed_since(entry, text))
            return False
        self._write(secret, pull_secret.removed(text, names))
        self.say(f"the pull secret is as before, without {', '.join(names)}")
        return True


def _noted(earlier: Mapping[str, Any] | None, text: str, result: str, names: list[str]) -> dict[str, Any]:
    """Return the entry of the pull secret for a change from ``text`` to ``result``, which adds ``names``.

    Raises OwnershipError if an earlier change was not put back and somebody has changed the secret since.
    """
    salt = earlier["salt"] if earlier else secrets.token_hex(16)
    entry: dict[str, Any] = {
        "salt": salt,
        "before": _hashed(salt, text),
        "known": sorted(pull_secret.auths(text, "it")),
        "states": [],
    }
    if earlier:
        entry = {**entry, "before": earlier["before"], "known": earlier["known"], "states": list(earlier["states"])}
        now = _hashed(salt, text)
        ours = next((one["registries"] for one in entry["states"] if one["after"] == now), None)
        if now != entry["before"] and ours is None:
            raise OwnershipError(_changed_since(earlier, text))
        names = [*names, *(ours or [])]
    state = {"after": _hashed(salt, result), "registries": names}
    return {**entry, "registries": names, "states": [*(one for one in entry["states"] if one != state), state]}


def _changed_since(entry: Mapping[str, Any], text: str) -> str:
    there = set(pull_secret.auths(text, f"Secret {NAMESPACE}/{NAME}"))
    ours = _ours(entry)
    more, fewer = sorted(there - set(entry["known"]) - ours), sorted(set(entry["known"]) - there)
    how = [f"{what} {formats.format_list(names)}" for what, names in (("added", more), ("removed", fewer)) if names]
    still = f"; it still has this run's {formats.format_list(sorted(ours & there))}" if ours & there else ""
    return f"somebody changed Secret {NAMESPACE}/{NAME} ({' and '.join(how) or 'other content'}){still}"


def _ours(entry: Mapping[str, Any]) -> set[str]:
    """Return the registries whose credentials the run added."""
    return {name for one in entry["states"] for name in one["registries"]}


def _hashed(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an object is ours and unchanged: its first generation may have defaults of the server."""
    owner = (found["metadata"].get("annotations") or {}).get(mirror_sets.RUN)
    unchanged = found["metadata"].get("generation") == 1 or found.get("spec") == wanted["spec"]
    return unchanged and owner == wanted["metadata"]["annotations"][mirror_sets.RUN]
