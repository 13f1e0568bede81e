# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live view of some kinds of a cluster: listed once, then watched, so that waiting costs no requests."""

from __future__ import annotations

import threading
import time
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import Watch, events
from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import Thread

#: Seconds before a broken watch is opened again.
_PAUSE = 1.0


class _Followed:
    """One kind, its objects by (namespace, name), and the thread that keeps them up to date."""

    def __init__(self, kind: Kind, namespace: str, selector: str) -> None:
        self.kind, self.namespace, self.selector = kind, namespace, selector
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = ""
        self.watch: Watch | None = None


class WatchCache:
    """Kinds that are followed, by name. Use as a context manager: leaving it ends the watches."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._followed: dict[str, _Followed] = {}
        self._changed = threading.Condition()
        self._generation = 0
        self._closed = threading.Event()

    def __enter__(self) -> WatchCache:
        return self

    def __exit__(self, *_error: object) -> None:
        self._closed.set()
        for one in self._followed.values():
            if one.watch is not None:
                one.watch.close()

    def follow(self, api_version: str, kind: str, namespace: str = "", selector: str = "") -> None:
        """List a kind now and watch it from then on; a kind that is followed already stays as it is.

        Raises InputError when the server has no such kind, ApiError.
        """
        if kind in self._followed:
            return
        one = _Followed(self.client.kind(api_version, kind), namespace, selector)
        self._list(one)
        self._followed[kind] = one
        Thread(target=self._keep, args=(one,), daemon=True).start()

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a followed kind, by namespace and name."""
        with self._changed:
            return [value for _key, value in sorted(self._followed[kind].objects.items())]

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return one object of a followed kind, or None."""
        with self._changed:
            return self._followed[kind].objects.get((namespace, name))

    def note(self, kind: str, item: dict[str, Any] | None) -> None:
        """Take in what a write answered, before the watch brings it; of kinds that are not followed nothing is kept."""
        if item is not None and kind in self._followed:
            self._put(self._followed[kind], item)

    @property
    def generation(self) -> int:
        """A number that grows with every change; take it before looking, give it to wait()."""
        with self._changed:
            return self._generation

    def wait(self, generation: int, timeout: float) -> None:
        """Return when something has changed since ``generation``, at the latest after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._generation > generation, max(timeout, 0.0))

    # The threads

    def _list(self, one: _Followed) -> None:
        items, one.version = self.client.list(one.kind, one.namespace, one.selector)
        with self._changed:
            one.objects = {_key(item): item for item in items}
            self._bump()

    def _keep(self, one: _Followed) -> None:
        stale = False
        while not self._closed.is_set():
            try:
                if stale:
                    self._list(one)
                stale = False
                one.watch = Watch(
                    self.client, one.kind, one.version, namespace=one.namespace, label_selector=one.selector
                )
                if self._closed.is_set():
                    one.watch.close()
                for event in events(one.watch):
                    self._take(one, event)
            except (SeatrialError, OSError, ValueError) as error:
                # 410: what we last saw was compacted away. Anything else: the connection or the server went away.
                stale = True
                if not self._closed.is_set() and not (isinstance(error, ApiError) and error.status == 410):
                    time.sleep(_PAUSE)

    def _take(self, one: _Followed, event: dict[str, Any]) -> None:
        item = event["object"]
        one.version = item["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            with self._changed:
                one.objects.pop(_key(item), None)
                self._bump()
        elif event["type"] in ("ADDED", "MODIFIED"):
            self._put(one, item)

    def _put(self, one: _Followed, item: dict[str, Any]) -> None:
        with self._changed:
            one.objects[_key(item)] = item
            self._bump()

    def _bump(self) -> None:
        self._generation += 1
        self._changed.notify_all()


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]
