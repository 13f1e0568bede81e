# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deleting on a cluster: find by label in every kind that the server has, delete, wait until gone, look again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._cleanup import deletion_order
from ansible_collections.perfscale.seatrial.plugins.module_utils._cleanup.deletion_order import LabelledObject
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, SeatrialError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import ThreadPool

#: Requests at once.
_PARALLEL = 16

#: Seconds that the garbage collector is given for what belongs to a deleted object, before we delete that ourselves.
_GRACE = 15.0

#: Objects, at most, that Kubernetes may help to delete by emptying their namespace.
_FEW = 200

#: Seconds between two lines that say what is waited for.
_TELL = 5.0

_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class CleanupTimeout(WaitTimeout):
    """Not everything was gone in time. ``deleted`` and ``left``: kind -> number."""

    def __init__(self, message: str, deleted: dict[str, int], left: dict[str, int]) -> None:
        super().__init__(message)
        self.deleted = deleted
        self.left = left


@dataclass
class CleanupOutcome:
    """What became of a run's objects. kind -> number in ``deleted``, ``left`` and ``kept``."""

    deleted: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    handed_over: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)


class Sweep:
    """One cleanup of one run on one cluster."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        extra_selector: str = "",
        kinds: Sequence[str] = (),
        keep_nodes: bool = False,
        say: Callable[[str], None] = lambda text: None,
        made: Mapping[str, set[str]] | None = None,
    ) -> None:
        """made: kind -> namespaces of what the run is known to have made; of these kinds no look may fail."""
        self.made = made or {}
        self.client = client
        self.run_id = run_id
        self.selector = deletion_order.selector(run_id, extra_selector)
        self.only = list(kinds)
        self.keep_nodes = keep_nodes
        self.say = say
        self.outcome = CleanupOutcome()
        self._deleted: dict[str, LabelledObject] = {}

    # Looking

    def find(self) -> list[LabelledObject]:
        """Return everything that carries the run's label, kept nodes left out; kinds are asked for anew each time."""
        kinds = deletion_order.deletable(self.client.kinds(), self.only)
        self.outcome.unlisted = []
        everything = deletion_order.distinct(self._listed(kinds))
        nodes = [one for one in everything if one.kind.kind == "Node" and self.keep_nodes]
        self.outcome.kept = deletion_order.counts(nodes)
        here = [one for one in everything if one not in nodes]
        self.outcome.left = deletion_order.counts(here)
        return here

    def _listed(self, kinds: Iterable[Kind], namespace: str = "") -> list[LabelledObject]:
        with ThreadPool(_PARALLEL) as pool:
            lists = list(pool.map(lambda kind: self._list(kind, namespace, self.selector), kinds))
        return [deletion_order.found(kind, item) for kind, items in zip(kinds, lists, strict=True) for item in items]

    def _list(self, kind: Kind, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Return the metadata of a kind's objects; one just gone is empty.

        Whoever may not list a kind everywhere may do so where the run has made objects of it. A kind of which the run
        has made none is noted when it can't be listed.
        """
        try:
            return self.client.list(kind, namespace, selector, metadata_only=True)[0]
        except ApiError as error:
            if error.status in (404, 405):
                return []
            places = self.made.get(kind.kind, set())
            if error.status == 403 and not namespace and places - {""}:
                return [item for place in sorted(places - {""}) for item in self._list(kind, place, selector)]
            if (error.status == 403 or error.status >= 500) and not places:
                self.outcome.unlisted.append(f"{kind.kind} ({error.status})")
                return []
            raise

    # Deleting

    def clean(self, timeout: float) -> CleanupOutcome:
        """Delete until a look at every kind finds nothing.

        Raises CleanupTimeout naming what is left after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while here := self.find():
            self.say(f"deleting {deletion_order.text(deletion_order.counts(here))}")
            first, *others = deletion_order.waves(here)
            self._delete_wave(first)
            told = []
            if len(first) <= _FEW:
                # Kubernetes begins to empty a namespace 5 s after it was told to, so it is told early. With much in it
                # that would be emptied twice, by us and one by one by Kubernetes, each in the other's way.
                told = [one for wave in others for one in wave if one.kind.kind == "Namespace"]
                self._delete_wave(told)
            self._wait_gone(first, deadline, timeout)
            for wave in others:
                self._delete_wave([one for one in wave if one not in told])
                self._wait_gone(wave, deadline, timeout)
        self._wait_dependents(deadline, timeout)
        self.outcome.deleted = deletion_order.counts(self._deleted.values())
        return self.outcome

    def _delete_wave(self, wave: Sequence[LabelledObject]) -> None:
        """Send the deletions of a wave, those of what the garbage collector will see to left out."""
        keep = self._hand_over([one for one in wave if one.kind.kind == "Namespace"])
        keep += self._used_definitions([one for one in wave if one.kind.kind == "CustomResourceDefinition"])
        going = [one for one in wave if one not in keep]
        self._delete([one for one in deletion_order.roots(going) if not one.deleting])
        self._deleted.update({one.uid: one for one in going})

    def _delete(self, objects: Sequence[LabelledObject]) -> None:
        """Delete objects one by one, several at a time.

        A collection's deletion is one request, but the server then deletes its objects one after the other: measured
        on a busy machine that takes five times as long, and beyond a minute the request is cut off.
        """

        def delete(one: LabelledObject) -> None:
            self.client.delete_seen(one.kind, one.name, one.namespace, one.uid)

        told = time.monotonic()
        with ThreadPool(_PARALLEL) as pool:
            # Errors of the threads come out here.
            for number, _nothing in enumerate(pool.map(delete, objects), 1):
                if time.monotonic() - told >= _TELL:
                    told = time.monotonic()
                    self.say(f"sent {number} of {len(objects)} deletions")

    def _wait_gone(self, wave: Sequence[LabelledObject], deadline: float, timeout: float) -> None:
        """Wait until nothing of these kinds carries the label; objects that appear meanwhile are deleted too."""
        kinds = list(dict.fromkeys(one.kind for one in wave))
        pause = _SHORTEST_PAUSE
        began = told = time.monotonic()
        while True:
            looked = time.monotonic()
            left = [
                one
                for one in deletion_order.distinct(self._listed(kinds))
                if not (self.keep_nodes and one.kind.kind == "Node")
            ]
            took = time.monotonic() - looked
            if not left:
                return
            if time.monotonic() >= deadline:
                raise CleanupTimeout(
                    f"cleanup of run {self.run_id}: after {timeout:g} s there is still "
                    f"{deletion_order.left_text(left)}",
                    deletion_order.counts(
                        one for one in self._deleted.values() if one.uid not in {two.uid for two in left}
                    ),
                    deletion_order.counts(left),
                )
            fresh = [one for one in left if not one.deleting]
            late = time.monotonic() - began > _GRACE
            self._delete([one for one in fresh if late or not self._deleted.keys() & {one.uid, *one.owners}])
            self._deleted.update({one.uid: one for one in fresh})
            if time.monotonic() - told >= _TELL:
                told = time.monotonic()
                self.say(f"waiting for {deletion_order.left_text(left, 2)}")
            # Looking at many objects costs the server more than deleting a few.
            time.sleep(max(pause, took))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _wait_dependents(self, deadline: float, timeout: float) -> None:
        """Wait for what belonged to deleted objects and has no label of ours, such as the Services of a job.

        The garbage collector deletes it. In namespaces that are gone nothing is left to look for.
        """
        gone = {one.name for one in self._deleted.values() if one.kind.kind == "Namespace"}
        places = {one.namespace for one in self._deleted.values()} - gone - {""}
        kinds = [one for one in deletion_order.deletable(self.client.kinds()) if one.namespaced] if places else []
        todo = [(kind, place) for place in sorted(places) for kind in kinds]
        while todo:
            with ThreadPool(_PARALLEL) as pool:
                lists = list(pool.map(lambda at: self._list(at[0], at[1], ""), todo))
            found = [
                [deletion_order.found(at[0], item) for item in items] for at, items in zip(todo, lists, strict=True)
            ]
            held = [[one for one in each if self._deleted.keys() & set(one.owners)] for each in found]
            todo = [at for at, each in zip(todo, held, strict=True) if each]
            left = [one for each in held for one in each]
            if left and time.monotonic() >= deadline:
                raise CleanupTimeout(
                    f"cleanup of run {self.run_id}: after {timeout:g} s there is still "
                    f"{deletion_order.left_text(left)}, "
                    "which belonged to what was deleted",
                    deletion_order.counts(self._deleted.values()),
                    deletion_order.counts(left),
                )
            if todo:
                time.sleep(_LONGEST_PAUSE)

    # What must stay

    def _hand_over(self, namespaces: Sequence[LabelledObject]) -> list[LabelledObject]:
        """Keep namespaces in which somebody else's objects lie: take our label off instead, and say so."""
        if not namespaces:
            return []
        kinds = [one for one in deletion_order.deletable(self.client.kinds()) if one.namespaced]
        kept: list[LabelledObject] = []
        for one in namespaces:
            with ThreadPool(_PARALLEL) as pool:
                lists = list(pool.map(lambda kind, name=one.name: self._list(kind, name, ""), kinds))
            others = [
                f"{kind.kind} {item['metadata']['name']}"
                for kind, items in zip(kinds, lists, strict=True)
                for item in items
                if deletion_order.foreign(kind.kind, item, self.run_id)
            ]
            if others:
                kept.append(one)
                more = f" and {len(others) - 3} more" if len(others) > 3 else ""
                self._let_go(one, f"it holds objects of others: {', '.join(others[:3])}{more}")
        return kept

    def _used_definitions(self, definitions: Sequence[LabelledObject]) -> list[LabelledObject]:
        """Keep definitions of kinds of which objects are left: they would go with it, and they are not ours."""
        kept: list[LabelledObject] = []
        for one in definitions:
            plural, _dot, group = one.name.partition(".")
            kind = next(
                (
                    kind
                    for kind in self.client.kinds()
                    if kind.resource == plural and kind.api_version.startswith(f"{group}/")
                ),
                None,
            )
            if kind is not None and self._list(kind, "", ""):
                kept.append(one)
                self._let_go(one, "there are objects of this kind that this run did not make")
        return kept

    def _let_go(self, one: LabelledObject, why: str) -> None:
        """Take the run's label off: the object is others' from now on."""
        note = {"perfscale.seatrial/left-by": self.run_id}
        patch = {"metadata": {"labels": {_labels.RUN: None}, "annotations": note}}
        self.client.request("PATCH", one.kind.path("", one.name), patch, content_type=MERGE_PATCH)
        self.outcome.handed_over.append(one.title)
        self.say(f"{one.title} stays without our label, because {why}")


def verify(sweep: Sweep) -> CleanupOutcome:
    """Look at every kind; raise SeatrialError naming what still carries the run's label."""
    left = sweep.find()
    if left:
        raise SeatrialError(f"run {sweep.run_id} still has {deletion_order.left_text(left)}")
    return sweep.outcome
