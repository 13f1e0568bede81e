# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a cluster access to a registry, and put everything back: its pull secret, mirrors of images, machine pools.

The inventory, a file of the run, names every change before it is made. It holds no credentials: of the pull secret only
salted hashes, by which a later session recognizes what it finds. Pools of machines take over a changed configuration
one machine after the other.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    field_at_path,
    format_object_title,
    is_condition_true,
)

from . import pull_secret_content

POOL_VERSION, POOL_KIND = "machineconfiguration.openshift.io/v1", "MachineConfigPool"
#: Seconds between two looks at the pools.
_POLL_INTERVAL = 5.0


def refuse_pools_that_cannot_change(client: Client) -> None:
    """Raise ProcessError if a pool could not take over a change, InputError on a cluster without pools."""
    for pool in _list_machine_config_pools(client):
        _refuse_degraded(pool)
        if field_at_path(pool, "spec.paused", False):
            raise ProcessError(
                f"{format_object_title(pool)} is paused: its machines would not take over a changed configuration"
            )


def wait_for_pools(client: Client, timeout: float, settle: float, say: waiting.Say) -> None:
    """Wait until every pool has its configuration on all machines, at least ``settle`` seconds.

    Within these seconds the operator makes a new configuration of what was changed; it makes none if nothing of the
    configuration depends on it. timeout: in seconds, after these. Raises ProcessError for a degraded pool, WaitTimeout.
    """
    began = time.monotonic()

    def look() -> tuple[bool | None, str]:
        pools = _list_machine_config_pools(client)
        if time.monotonic() - began < settle:
            return None, "waiting for new configurations of the MachineConfigPools"
        for pool in pools:
            _refuse_degraded(pool)
        late = [_format_pool_progress(pool) for pool in pools if not _is_pool_updated(pool)]
        return (None, f"waiting for {formats.format_list(late)}") if late else (True, "")

    limit = settle + timeout
    waiting.wait_until(look, limit, say, lambda text: f"after {limit:g} s still {text}", _POLL_INTERVAL)


def _list_machine_config_pools(client: Client) -> list[dict[str, Any]]:
    try:
        return [{**pool, "kind": POOL_KIND} for pool in client.list(client.kind(POOL_VERSION, POOL_KIND))[0]]
    except InputError as error:
        raise InputError(f"credentials and mirrors can only be added to a cluster of OpenShift: {error}") from error


def _refuse_degraded(pool: Mapping[str, Any]) -> None:
    if is_condition_true(pool, "Degraded"):
        why = conditions_by_type(pool)["Degraded"].get("message") or "its condition gives no reason"
        raise ProcessError(f"{format_object_title(pool)} is degraded: {why}")


def _is_pool_updated(pool: Mapping[str, Any]) -> bool:
    """Return whether all machines have the configuration: the condition alone may be that of the last one."""
    wanted, reached = (field_at_path(pool, f"{part}.configuration.name", "") for part in ("spec", "status"))
    return is_condition_true(pool, "Updated") and wanted == reached


def _format_pool_progress(pool: Mapping[str, Any]) -> str:
    done, count = (field_at_path(pool, f"status.{name}", 0) for name in ("updatedMachineCount", "machineCount"))
    why = conditions_by_type(pool).get("Updating", {}).get("message") or (
        "it is paused" if field_at_path(pool, "spec.paused") else ""
    )
    return f"{format_object_title(pool)} ({done} of {count} machines updated{f': {why}' if why else ''})"


#: Annotation with the id of the run. It is no label: role cleanup would delete the object, also if somebody changed it.
RUN_ANNOTATION = "perfscale.seatrial/run"
DIGEST, TAG = "digest", "tag"
#: (API version, kind, field of its spec) for images by digest and by tag, and of clusters before OpenShift 4.13.
CURRENT = {
    DIGEST: ("config.openshift.io/v1", "ImageDigestMirrorSet", "imageDigestMirrors"),
    TAG: ("config.openshift.io/v1", "ImageTagMirrorSet", "imageTagMirrors"),
}
OLDER = {DIGEST: ("operator.openshift.io/v1alpha1", "ImageContentSourcePolicy", "repositoryDigestMirrors")}

MirrorKinds = Mapping[str, tuple[str, str, str]]


def kinds_of_image_mirrors(client: Client) -> MirrorKinds:
    """Return the kinds that the cluster uses. Raises InputError if it has none.

    While policies exist, releases of the transition refuse mirror sets: a policy joins the others.
    """
    older = _are_kinds_served(client, OLDER)
    if older and any(client.list(client.kind(*mirror_kind[:2]))[0] for mirror_kind in OLDER.values()):
        return OLDER
    if _are_kinds_served(client, CURRENT):
        return CURRENT
    if older:
        return OLDER
    raise InputError("mirrors: the cluster has neither ImageDigestMirrorSets nor ImageContentSourcePolicies")


def _are_kinds_served(client: Client, wanted: MirrorKinds) -> bool:
    try:
        for version, kind, _field in wanted.values():
            client.kind(version, kind)
    except InputError:
        return False
    return True


def mirror_manifests(mirrors: Sequence[Mapping[str, Any]], run_id: str, known: MirrorKinds) -> list[dict[str, Any]]:
    """Return the objects for the mirrors. Raises InputError for tags on a cluster that only knows digests."""
    manifests = []
    for by in (DIGEST, TAG):
        entries = [
            {"source": mirror["source"], "mirrors": list(mirror["mirrors"])} for mirror in mirrors if mirror["by"] == by
        ]
        if not entries:
            continue
        if by not in known:
            raise InputError(
                f"mirrors: {entries[0]['source']} by tag: this cluster uses ImageContentSourcePolicies, which "
                "only mirror images by digest"
            )
        version, kind, name = known[by]
        metadata = {"name": f"seatrial-{run_id}", "annotations": {RUN_ANNOTATION: run_id}}
        manifests.append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {name: entries}})
    return manifests


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
        refuse_pools_that_cannot_change(self.client)
        inventory = self._read()
        wanted = (
            pull_secret_content.parse_registry_credentials(credentials, "the pull secret for the registry")
            if credentials
            else {}
        )
        sets = mirror_manifests(mirrors, self.run_id, kinds_of_image_mirrors(self.client)) if mirrors else []
        missing = [mirror_set for mirror_set in sets if not self._is_there(mirror_set)]
        secret, text = self._secret() if wanted else ({}, "")
        result = pull_secret_content.merge_registry_credentials(text, wanted) if wanted else ""
        changes = bool(missing) or result != text
        if check or not (changes or inventory.get("pending")):
            return changes
        if result != text:
            inventory["secret"] = _pull_secret_change_record(
                inventory.get("secret"), text, result, pull_secret_content.registries_without_credentials(text, wanted)
            )
        known = [mirror["manifest"] for mirror in inventory["mirrors"]]
        inventory["mirrors"] += [{"manifest": manifest} for manifest in missing if manifest not in known]
        files.write_json(self.path, {**inventory, "pending": True}, SCHEMA)
        if result != text:
            self._write(secret, result)
            self.say(f"credentials for {', '.join(inventory['secret']['registries'])} are in the pull secret")
        for mirror_set in missing:
            self.client.create(mirror_set)
            self.say(f"created {format_object_title(mirror_set)}")
        wait_for_pools(self.client, self.timeout, self.settle, self.say)
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
        changed = [self._remove_mirrors(mirror, left) for mirror in inventory["mirrors"]]
        if inventory.get("secret"):
            changed.append(self._restore_secret(inventory["secret"], left))
        wait_for_pools(self.client, self.timeout, self.settle, self.say)
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
        secret = self.client.get(self.client.kind("v1", "Secret"), NAME, NAMESPACE)
        data = ((secret or {}).get("data") or {}).get(KEY)
        if secret is None or data is None:
            raise InputError(f"the cluster has no Secret {NAMESPACE}/{NAME} with {KEY}")
        return secret, base64.b64decode(data).decode()

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
        existing = self._mirror_set(wanted)
        if existing is not None and not _is_own_unchanged_object(existing, wanted):
            raise OwnershipError(f"{format_object_title(existing)} exists and is another one: remove it first")
        return existing is not None

    def _mirror_set(self, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = self.client.kind(wanted["apiVersion"], wanted["kind"])
        return self.client.get(kind, wanted["metadata"]["name"])

    def _remove_mirrors(self, entry: Mapping[str, Any], left: list[str]) -> bool:
        wanted = entry["manifest"]
        existing = self._mirror_set(wanted)
        if existing is None:
            return False
        if not _is_own_unchanged_object(existing, wanted):
            left.append(f"somebody changed {format_object_title(existing)} since this run created it")
            return False
        kind = self.client.kind(wanted["apiVersion"], wanted["kind"])
        self.client.delete_seen(kind, existing["metadata"])
        waiting.wait_until_gone(lambda: [format_object_title(existing)] if self._mirror_set(wanted) else [], _DELETION)
        self.say(f"removed {format_object_title(existing)}")
        return True

    def _restore_secret(self, entry: Mapping[str, Any], left: list[str]) -> bool:
        secret, text = self._secret()
        now = _salted_hash(entry["salt"], text)
        if now == entry["before"] or not _registries_added_by_run(entry) & set(
            pull_secret_content.parse_registry_credentials(text, f"Secret {NAMESPACE}/{NAME}")
        ):
            return False
        names = next((state["registries"] for state in entry["states"] if state["after"] == now), None)
        if names is None:
            left.append(_changed_since(entry, text))
            return False
        self._write(secret, pull_secret_content.without_added_credentials(text, names))
        self.say(f"the pull secret is as before, without {', '.join(names)}")
        return True


def _pull_secret_change_record(
    earlier: Mapping[str, Any] | None, text: str, result: str, names: list[str]
) -> dict[str, Any]:
    """Return the entry of the pull secret for a change from ``text`` to ``result``, which adds ``names``.

    Raises OwnershipError if an earlier change was not put back and somebody has changed the secret since.
    """
    salt = earlier["salt"] if earlier else secrets.token_hex(16)
    entry: dict[str, Any] = {
        "salt": salt,
        "before": _salted_hash(salt, text),
        "known": sorted(pull_secret_content.parse_registry_credentials(text, "it")),
        "states": [],
    }
    if earlier:
        entry = {**entry, "before": earlier["before"], "known": earlier["known"], "states": list(earlier["states"])}
        now = _salted_hash(salt, text)
        ours = next((state["registries"] for state in entry["states"] if state["after"] == now), None)
        if now != entry["before"] and ours is None:
            raise OwnershipError(_changed_since(earlier, text))
        names = [*names, *(ours or [])]
    state = {"after": _salted_hash(salt, result), "registries": names}
    return {**entry, "registries": names, "states": [*(other for other in entry["states"] if other != state), state]}


def _changed_since(entry: Mapping[str, Any], text: str) -> str:
    there = set(pull_secret_content.parse_registry_credentials(text, f"Secret {NAMESPACE}/{NAME}"))
    ours = _registries_added_by_run(entry)
    more, fewer = sorted(there - set(entry["known"]) - ours), sorted(set(entry["known"]) - there)
    how = [f"{what} {formats.format_list(names)}" for what, names in (("added", more), ("removed", fewer)) if names]
    still = f"; it still has this run's {formats.format_list(sorted(ours & there))}" if ours & there else ""
    return f"somebody changed Secret {NAMESPACE}/{NAME} ({' and '.join(how) or 'other content'}){still}"


def _registries_added_by_run(entry: Mapping[str, Any]) -> set[str]:
    """Return the registries whose credentials the run added."""
    return {name for state in entry["states"] for name in state["registries"]}


def _salted_hash(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()


def _is_own_unchanged_object(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an object is ours and unchanged: its first generation may have defaults of the server."""
    owner = (existing["metadata"].get("annotations") or {}).get(RUN_ANNOTATION)
    unchanged = existing["metadata"].get("generation") == 1 or existing.get("spec") == wanted["spec"]
    return unchanged and owner == wanted["metadata"]["annotations"][RUN_ANNOTATION]
