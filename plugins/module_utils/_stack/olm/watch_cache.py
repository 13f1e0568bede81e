# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache of objects of some kinds: listed once, then kept current by watches, so that waiting needs no requests."""

from __future__ import annotations

import threading
import time
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signal_blocking_threads import Thread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import Watch, events

#: Seconds until a broken watch is reopened.
_PAUSE = 1.0


class _WatchedKind:
    """One kind with its objects by (namespace, name), and its watch."""

    def __init__(self, kind: Kind, namespace: str, selector: str) -> None:
        self.kind, self.namespace, self.selector = kind, namespace, selector
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = ""
        self.watch: Watch | None = None


class WatchCache:
    """Watched kinds, by name. Use as a context manager: leaving it closes the watches."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._watched: dict[str, _WatchedKind] = {}
        self._changed = threading.Condition()
        self._generation = 0
        self._closed = threading.Event()

    def __enter__(self) -> WatchCache:
        return self

    def __exit__(self, *_error: object) -> None:
        self._closed.set()
        for one in self._watched.values():
            if one.watch is not None:
                one.watch.close()

    def follow(self, api_version: str, kind: str, namespace: str = "", selector: str = "") -> None:
        """List a kind and watch it from then on. Does nothing for a kind that is already watched.

        Raises InputError if the server has no such kind, ApiError.
        """
        if kind in self._watched:
            return
        one = _WatchedKind(self.client.kind(api_version, kind), namespace, selector)
        self._list(one)
        self._watched[kind] = one
        Thread(target=self._keep, args=(one,), daemon=True).start()

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a watched kind, sorted by namespace and name."""
        with self._changed:
            return [value for _key, value in sorted(self._watched[kind].objects.items())]

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return one object of a watched kind, or None."""
        with self._changed:
            return self._watched[kind].objects.get((namespace, name))

    def note(self, kind: str, item: dict[str, Any] | None) -> None:
        """Store the response of a write before the watch delivers it. Kinds that are not watched are ignored."""
        if item is not None and kind in self._watched:
            self._put(self._watched[kind], item)

    @property
    def generation(self) -> int:
        """A number that grows with every change. Read it before the objects and pass it to wait()."""
        with self._changed:
            return self._generation

    def wait(self, generation: int, timeout: float) -> None:
        """Return when an object has changed since ``generation``, at the latest after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._generation > generation, max(timeout, 0.0))

    # The threads

    def _list(self, one: _WatchedKind) -> None:
        items, one.version = self.client.list(one.kind, one.namespace, one.selector)
        with self._changed:
            one.objects = {_key(item): item for item in items}
            self._bump()

    def _keep(self, one: _WatchedKind) -> None:
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
                # 410: the resourceVersion was compacted. Anything else: the connection or the server failed.
                stale = True
                if not self._closed.is_set() and not (isinstance(error, ApiError) and error.status == 410):
                    time.sleep(_PAUSE)

    def _take(self, one: _WatchedKind, event: dict[str, Any]) -> None:
        item = event["object"]
        one.version = item["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            with self._changed:
                one.objects.pop(_key(item), None)
                self._bump()
        elif event["type"] in ("ADDED", "MODIFIED"):
            self._put(one, item)

    def _put(self, one: _WatchedKind, item: dict[str, Any]) -> None:
        with self._changed:
            one.objects[_key(item)] = item
            self._bump()

    def _bump(self) -> None:
        self._generation += 1
        self._changed.notify_all()


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]
