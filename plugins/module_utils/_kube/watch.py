# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches: the changes of objects of one kind since a resourceVersion, and a cache that watches keep current."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)

from .api_errors import api_error
from .api_requests import append_query_to_path
from .client import Client, require_named_object
from .connection import JSON, METADATA, LineStream, format_request_head, request_bytes
from .discovery import ServedKind
from .label_selectors import is_selected

#: Requested lifetime of a watch in seconds, and seconds without data after which it counts as broken.
#: Bookmarks arrive about once a minute.
LIFE = 300
SILENCE = 150.0


class WatchConnection:
    """One watch on a separate connection. Created and read by one thread; any thread may close it."""

    def __init__(
        self,
        client: Client,
        kind: ServedKind,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        life: int = LIFE,
        silence: float = SILENCE,
    ) -> None:
        """Open the watch: it is established when this returns.

        Raises ApiError (410: the resourceVersion is too old, list again), Broken, AccessError.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": life,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        path = kind.path(namespace)
        head = format_request_head(
            client.access, "GET", append_query_to_path(path, query), METADATA if metadata_only else JSON
        )
        self.stream = LineStream(client.access, client.timeout)
        shown = client.access.authorization
        reply = self.stream.open(request_bytes(client.access, head), silence)
        if reply.status == 401 and client.access.refresh(shown):
            self.stream.close()
            reply = self.stream.open(request_bytes(client.access, head), silence)
        if reply.status != 200:
            self.stream.close()
            raise api_error(reply, f"watch {path}", client.access)
        #: When the watch was established, time.monotonic().
        self.established = reply.answered

    def lines(self) -> Iterator[tuple[float, bytes]]:
        """Yield (time.monotonic() of arrival, the event as JSON), bookmarks included.

        Ends when the server ends the watch or close() is called. Raises Broken if the connection fails.
        """
        return self.stream.lines()

    def close(self) -> None:
        """End the watch; a thread that reads its lines sees Broken or the end at once."""
        self.stream.interrupt()


def events_of_watch_connection(watch: WatchConnection) -> Iterator[dict[str, Any]]:
    """Yield a watch's events as dictionaries ``{type, object}``, bookmarks included.

    Raises ApiError for an ERROR event (status 410: list again), Broken, AccessError for a line that is no event.
    """
    for _at, line in watch.lines():
        yield parse_watch_line(line)


def parse_watch_line(line: bytes) -> dict[str, Any]:
    """Return the event in a line of a watch. Raises as events_of_watch_connection() does."""
    what = "a line of a watch"
    with expect_documented_form(what, "no JSON"):
        event = parse_json(line)
    with expect_documented_form(what, event):
        if event["type"] == "ERROR":
            raise error_from_watch_event(event)
        str(event["object"]["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            require_named_object(what, event["object"])
    return dict(event)


def error_from_watch_event(event: dict[str, Any]) -> ApiError:
    """Return the error of an ERROR event."""
    status = event["object"] if isinstance(event.get("object"), dict) else {}
    code = status.get("code")
    number = code if isinstance(code, int) else 0
    return ApiError(f"watch: {status.get('message')}", number, str(status.get("reason") or ""))


#: Seconds until a watch is reopened that ended or broke sooner.
_PAUSE = 1.0


class _WatchedKind:
    """One kind with its objects by (namespace, name), and its watch."""

    def __init__(self, kind: ServedKind, namespace: str, selector: str) -> None:
        self.kind, self.namespace, self.selector = kind, namespace, selector
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = ""
        self.watch: WatchConnection | None = None


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
        for watched in self._watched.values():
            if watched.watch is not None:
                watched.watch.close()

    def follow(self, api_version: str, kind: str, namespace: str = "", selector: str = "") -> None:
        """List a kind and watch it from then on. Does nothing for a kind that is already watched.

        Raises InputError if the server has no such kind, ApiError.
        """
        if kind in self._watched:
            return
        watched = _WatchedKind(self.client.kind(api_version, kind), namespace, selector)
        self._list(watched)
        self._watched[kind] = watched
        SignalBlockingThread(target=self._keep, args=(watched,), daemon=True).start()

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

    def _list(self, watched: _WatchedKind) -> None:
        items, watched.version = self.client.list(watched.kind, watched.namespace, watched.selector)
        with self._changed:
            watched.objects = {_namespace_and_name(item): item for item in items}
            self._bump()

    def _keep(self, watched: _WatchedKind) -> None:
        stale = False
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                if stale:
                    self._list(watched)
                stale = False
                watched.watch = WatchConnection(
                    self.client,
                    watched.kind,
                    watched.version,
                    namespace=watched.namespace,
                    label_selector=watched.selector,
                )
                if self._closed.is_set():
                    watched.watch.close()
                for event in events_of_watch_connection(watched.watch):
                    self._take(watched, event)
            except (SeatrialError, OSError, LookupError, TypeError, ValueError):
                # 410: the resourceVersion was compacted. Anything else: the connection or the server failed.
                stale = True
            if not self._closed.is_set() and time.monotonic() - began < _PAUSE:
                time.sleep(_PAUSE)

    def _take(self, watched: _WatchedKind, event: dict[str, Any]) -> None:
        item = event["object"]
        watched.version = item["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            with self._changed:
                watched.objects.pop(_namespace_and_name(item), None)
                self._bump()
        elif event["type"] in ("ADDED", "MODIFIED"):
            self._put(watched, item)

    def _put(self, watched: _WatchedKind, item: dict[str, Any]) -> None:
        with self._changed:
            watched.objects.pop(_namespace_and_name(item), None)
            if is_selected(watched.selector, item):
                watched.objects[_namespace_and_name(item)] = item
            self._bump()

    def _bump(self) -> None:
        self._generation += 1
        self._changed.notify_all()


def _namespace_and_name(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]
