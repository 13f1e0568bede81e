# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete the objects of a run: find them by label in all kinds of the server, delete them, wait, repeat."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.label_selectors import is_selected
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import is_condition_true

from . import deletion_order
from .claims_of_others import volumes_with_claims_of_others
from .deletion_order import LabelledObject
from .unlisted_kinds import (
    format_refused_kind,
    hidden_kinds_of_run,
    is_refusal,
    kinds_without_answer,
    list_metadata_or_refusal,
    list_objects_of_kinds,
)

#: Number of concurrent requests.
_PARALLEL = 16

#: Seconds after which we delete the dependents of a deleted object ourselves instead of the garbage collector.
_GRACE = 15.0

#: Largest number of objects whose namespaces are deleted at the same time as the objects.
_FEW = 200

#: Seconds between two progress lines.
_REPORT_INTERVAL = 5.0

_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class CleanupTimeout(WaitTimeout):
    """Objects are left at the timeout. ``deleted`` and ``left``: kind -> number."""

    def __init__(self, message: str, deleted: dict[str, int], left: dict[str, int]) -> None:
        super().__init__(message)
        self.deleted = deleted
        self.left = left


@dataclass
class CleanupOutcome:
    """The result of a cleanup. ``deleted``, ``left`` and ``kept``: kind -> number."""

    deleted: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    handed_over: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)


class RunCleanup:
    """One cleanup of one run on one cluster."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        extra_selector: str = "",
        kinds: Sequence[str] = (),
        keep_nodes: bool = False,
        say: Callable[[str], None] = lambda text: None,
        created: Mapping[tuple[str | None, str], set[str]] | None = None,
    ) -> None:
        """created: API group (or None) and kind -> namespaces of what the run created; listing it must succeed."""
        self.created = created or {}
        self.client = client
        self.run_id = run_id
        self.selector = deletion_order.run_label_selector(run_id, extra_selector)
        self.only = list(kinds)
        self.keep_nodes = keep_nodes
        self.say = say
        self.outcome = CleanupOutcome()
        self._deleted: dict[str, LabelledObject] = {}
        # Kinds of which the run had objects: not being able to list them is an error.
        self._seen: set[ServedKind] = set()
        self._stays: set[str] = set()  # uids of what is kept for others
        self._refused: dict[str, LabelledObject] = {}  # uid -> what the server did not delete, or release for others
        self._errors: dict[str, str] = {}  # uid -> the error

    # Find

    def find(self) -> list[LabelledObject]:
        """Return all objects with the run's label, except nodes to keep. The kinds are listed again each time."""
        served = self.client.kinds()
        kinds = deletion_order.filter_deletable_kinds(served, self.only)
        self.outcome.unlisted = kinds_without_answer(self.client)
        if not self.only:
            groups = [(group, kind) for group, kind in self.created if group is not None]
            self.outcome.unlisted += hidden_kinds_of_run(self.client, served, groups, self.run_id)
        everything = deletion_order.remove_duplicate_objects(self._listed(kinds))
        nodes = [labelled for labelled in everything if labelled.kind.kind == "Node" and self.keep_nodes]
        self.outcome.kept = deletion_order.count_by_kind(nodes)
        here = [labelled for labelled in everything if labelled not in nodes and labelled.uid not in self._stays]
        self._seen.update(labelled.kind for labelled in here)
        self.outcome.left = deletion_order.count_by_kind(here)
        return here

    def _listed(self, kinds: Iterable[ServedKind], namespace: str = "") -> list[LabelledObject]:
        with ThreadPool(_PARALLEL) as pool:
            lists = list(pool.map(lambda kind: self._list(kind, namespace, self.selector), kinds))
        return [
            deletion_order.metadata_for_deletion(kind, item)
            for kind, items in zip(kinds, lists, strict=True)
            for item in items
        ]

    def _list(self, kind: ServedKind, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Return the metadata of a kind's objects; empty for a kind that was just deleted.

        Without permission to list a kind in all namespaces, lists it where the run has created objects of it. A kind of
        which the run has created none is noted if it can't be listed.
        """
        try:
            return self.client.list(kind, namespace, selector, metadata_only=True)[0]
        except ApiError as error:
            if error.status == 404:
                return []
            places = self.created.get((kind.group, kind.kind), set()) | self.created.get((None, kind.kind), set())
            if error.status == 403 and not namespace and places - {""}:
                return [item for place in sorted(places - {""}) for item in self._list(kind, place, selector)]
            if is_refusal(error) and not places and kind not in self._seen:
                self.outcome.unlisted.append(format_refused_kind(kind, error))
                return []
            raise

    # Delete

    def clean(self, timeout: float) -> CleanupOutcome:
        """Delete until no object of any kind is found.

        What can't be deleted does not keep the rest from being deleted. Raises CleanupTimeout naming what is left after
        ``timeout`` seconds, ApiError for objects whose deletion, or the removal of our label from them, was refused.
        """
        deadline = time.monotonic() + timeout
        for number in itertools.count():
            here = self.find()
            if not here:
                break
            if number and time.monotonic() >= deadline:  # a server may show objects only now and then
                raise self._timeout_error(here, timeout)
            self.say(f"deleting {deletion_order.format_counts_by_kind(deletion_order.count_by_kind(here))}")
            first, *others = deletion_order.split_into_deletion_waves(here)
            self._delete_wave(first)
            early = []
            if len(first) <= _FEW:
                # Kubernetes starts to empty a namespace 5 s after its deletion, so it is deleted early. With many
                # objects, we and Kubernetes would delete the same objects and slow each other down.
                early = [labelled for wave in others for labelled in wave if labelled.kind.kind == "Namespace"]
                self._delete_wave(early)
            self._delete_until_gone(first, deadline)
            for wave in others:
                self._delete_wave([labelled for labelled in wave if labelled not in early])
                self._delete_until_gone(wave, deadline)
        self._wait_dependents(deadline, timeout)
        self.outcome.deleted = deletion_order.count_by_kind(self._deleted.values())
        if refused := self._format_refused():
            raise ApiError(f"cleanup of run {self.run_id}: {refused}")
        return self.outcome

    def _delete_wave(self, wave: Sequence[LabelledObject]) -> None:
        """Send the deletions of a wave, except those that the garbage collector will make."""
        deleted = self._without_kept(wave)
        self._delete([labelled for labelled in deletion_order.objects_without_owners(deleted) if not labelled.deleting])
        self._note_deleted(deleted)

    def _note_deleted(self, objects: Sequence[LabelledObject]) -> None:
        self._deleted.update({labelled.uid: labelled for labelled in objects if labelled.uid not in self._refused})

    def _delete(self, objects: Sequence[LabelledObject]) -> None:
        """Delete objects with one request each, several at a time. What the server refuses to delete stays.

        The deletion of a collection is one request, but the server then deletes its objects one after the other. On a
        busy machine this took five times as long, and the server aborts the request after a minute.
        """

        def delete(labelled: LabelledObject) -> None:
            try:
                self.client.delete_seen(labelled.kind, labelled.metadata)
            except ApiError as error:
                self._note_refused(labelled, error)

        reported = time.monotonic()
        with ThreadPool(_PARALLEL) as pool:
            # Raises the errors of the threads.
            for number, _nothing in enumerate(pool.map(delete, objects), 1):
                if time.monotonic() - reported >= _REPORT_INTERVAL:
                    reported = time.monotonic()
                    self.say(f"sent {number} of {len(objects)} deletions")

    def _delete_until_gone(self, wave: Sequence[LabelledObject], deadline: float) -> None:
        """Wait until no object of these kinds has the label, or for the deadline: the other waves are tried then, too.

        Objects that appear meanwhile are deleted as well.
        """
        kinds = list(dict.fromkeys(labelled.kind for labelled in wave))
        pause = _SHORTEST_PAUSE
        began = reported = time.monotonic()
        while True:
            listing_began = time.monotonic()
            left = [
                labelled
                for labelled in deletion_order.remove_duplicate_objects(self._listed(kinds))
                if not (self.keep_nodes and labelled.kind.kind == "Node") and labelled.uid not in self._stays
            ]
            took = time.monotonic() - listing_began
            if not left or time.monotonic() >= deadline:
                return
            new = self._without_kept([labelled for labelled in left if not labelled.deleting])
            late = time.monotonic() - began > _GRACE
            self._delete(
                [labelled for labelled in new if late or not self._deleted.keys() & {labelled.uid, *labelled.owners}]
            )
            self._note_deleted(new)
            if time.monotonic() - reported >= _REPORT_INTERVAL:
                reported = time.monotonic()
                self.say(f"waiting for {deletion_order.format_remaining_objects(left, 2)}")
            # Listing many objects costs the server more than deleting a few.
            time.sleep(max(pause, took))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _timeout_error(self, left: Sequence[LabelledObject], timeout: float) -> CleanupTimeout:
        kept = {labelled.uid for labelled in left}
        refused = self._format_refused()
        return CleanupTimeout(
            f"cleanup of run {self.run_id}: after {timeout:g} s there are still "
            f"{deletion_order.format_remaining_objects(left)}{f'; {refused}' if refused else ''}",
            deletion_order.count_by_kind(labelled for labelled in self._deleted.values() if labelled.uid not in kept),
            deletion_order.count_by_kind(left),
        )

    def _wait_dependents(self, deadline: float, timeout: float) -> None:
        """Wait for the dependents of deleted objects that lack our label, such as the Services of a job.

        The garbage collector deletes them. Deleted namespaces need no check.
        """
        deleted = {labelled.name for labelled in self._deleted.values() if labelled.kind.kind == "Namespace"}
        places = {labelled.namespace for labelled in self._deleted.values()} - deleted - {""}
        kinds = (
            [kind for kind in deletion_order.filter_deletable_kinds(self.client.kinds()) if kind.namespaced]
            if places
            else []
        )
        todo = [(kind, place) for place in sorted(places) for kind in kinds]
        while todo:
            with ThreadPool(_PARALLEL) as pool:
                lists = list(pool.map(lambda at: self._list(at[0], at[1], ""), todo))
            objects_by_kind = [
                [deletion_order.metadata_for_deletion(at[0], item) for item in items]
                for at, items in zip(todo, lists, strict=True)
            ]
            held = [
                [labelled for labelled in objects if self._deleted.keys() & set(labelled.owners)]
                for objects in objects_by_kind
            ]
            todo = [at for at, objects in zip(todo, held, strict=True) if objects]
            left = [labelled for objects in held for labelled in objects]
            if left and time.monotonic() >= deadline:
                raise CleanupTimeout(
                    f"cleanup of run {self.run_id}: after {timeout:g} s there are still "
                    f"{deletion_order.format_remaining_objects(left)}, "
                    "whose owners were deleted",
                    deletion_order.count_by_kind(self._deleted.values()),
                    deletion_order.count_by_kind(left),
                )
            if todo:
                time.sleep(_LONGEST_PAUSE)

    def _note_refused(self, labelled: LabelledObject, error: ApiError) -> None:
        """Note that the server refused to delete or change an object, so that nothing waits for its end."""
        self._stays.add(labelled.uid)
        self._refused[labelled.uid] = labelled
        self._errors[labelled.uid] = str(error)

    def _format_refused(self) -> str:
        """Return the objects that are left because the server refused a request, and its answers; "" without any."""
        with ThreadPool(_PARALLEL) as pool:
            there = list(pool.map(self._is_still_there, self._refused.values()))
        left = [labelled for labelled, is_left in zip(self._refused.values(), there, strict=True) if is_left]
        texts = [f"{labelled.title}: {self._errors[labelled.uid]}" for labelled in left]
        return f"our label is left on {formats.format_list(texts, 5)}" if texts else ""

    # Keep

    def _without_kept(self, objects: Sequence[LabelledObject]) -> list[LabelledObject]:
        """Return the objects without the namespaces, definitions and volumes that are kept for others."""
        keep = self._hand_over([labelled for labelled in objects if labelled.kind.kind == "Namespace"])
        keep += self._used_definitions(
            [labelled for labelled in objects if labelled.kind.kind == "CustomResourceDefinition"]
        )
        for volume, claim in volumes_with_claims_of_others(self.client, objects, self.run_id):
            self._release(volume, f"claim {claim} of others is bound to it")
            keep.append(volume)
        return [labelled for labelled in objects if labelled not in keep]

    def _hand_over(self, namespaces: Sequence[LabelledObject]) -> list[LabelledObject]:
        """Keep namespaces that have, or may have, objects of others: remove our label from them, and report it."""
        if not namespaces:
            return []
        kinds = deletion_order.user_created_kinds(self.client.kinds())
        kept: list[LabelledObject] = []
        for namespace in namespaces:
            listed, unknown = list_objects_of_kinds(self.client, kinds, namespace.name)
            others = [
                f"{kind.kind} {item['metadata']['name']}"
                for kind, item in listed
                if deletion_order.belongs_to_others(kind.kind, item, self.run_id)
            ]
            if others:
                self._release(namespace, f"it has objects of others: {formats.format_list(others, 3)}")
            elif unknown:
                why = f"these can't be listed: {formats.format_list(unknown, 5)}"
                self._release(namespace, f"it may have objects of others: {why}")
            if others or unknown:
                kept.append(namespace)
        return kept

    def _used_definitions(self, definitions: Sequence[LabelledObject]) -> list[LabelledObject]:
        """Keep definitions of kinds of which objects of others exist, or may: they would be deleted."""
        kept: list[LabelledObject] = []
        for definition in definitions:
            items = self._objects_of_definition(definition)
            if not isinstance(items, str):
                items = [item for item in items if not is_selected(self.selector, item)]
            if items:
                kept.append(definition)
                why = "there are objects of this kind that this run did not create"
                self._release(definition, f"its objects can't be listed: {items}" if isinstance(items, str) else why)
        return kept

    def _objects_of_definition(self, definition: LabelledObject) -> list[dict[str, Any]] | str:
        """Return the metadata of the objects of a definition, or why they can't be listed."""
        for kind in self.client.kinds():
            if f"{kind.resource}.{kind.group}" == definition.name:
                return list_metadata_or_refusal(self.client, kind)
        current = self.client.get(definition.kind, definition.name)
        return f"the API discovery lacks {definition.name}" if is_condition_true(current, "Established") else []

    def _release(self, labelled: LabelledObject, why: str) -> None:
        """Remove the run's label: the object belongs to others from now on. Without permission it keeps the label.

        An object that is gone, or another one of its name, needs nothing. Another error fails the cleanup at its end.
        """
        self._stays.add(labelled.uid)
        note = {"perfscale.seatrial/left-by": self.run_id}
        patch = {"metadata": {"uid": labelled.uid, "labels": {run_labels.RUN: None}, "annotations": note}}
        label = "without our label"
        try:
            self.client.request("PATCH", labelled.kind.path("", labelled.name), patch, content_type=MERGE_PATCH)
        except ApiError as error:
            label = "with our label, which we may not remove"
            if error.status != 403:
                if not self._is_still_there(labelled):
                    return
                label = "with our label, which could not be removed"
                self._note_refused(labelled, error)
        self.outcome.handed_over.append(labelled.title)
        self.say(f"{labelled.title} is kept {label}, because {why}")

    def _is_still_there(self, labelled: LabelledObject) -> bool:
        """Return whether the object is the one that was found; also if the server does not say."""
        try:
            found = self.client.get(labelled.kind, labelled.name, labelled.namespace, metadata_only=True)
        except ApiError:
            return True
        return found is not None and found["metadata"].get("uid") == labelled.uid


def verify_nothing_left(sweep: RunCleanup) -> CleanupOutcome:
    """Raise SeatrialError naming the objects of any kind that still have the run's label."""
    left = sweep.find()
    if left:
        raise SeatrialError(f"run {sweep.run_id} still has {deletion_order.format_remaining_objects(left)}")
    return sweep.outcome
