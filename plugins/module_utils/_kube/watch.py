# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watch: the changes of objects of one kind since a resourceVersion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError

from .client import Client, api_error, with_query
from .connection import (
    JSON,
    METADATA,
    request_bytes,
    request_head,
)
from .discovery import Kind
from .line_stream import LineStream

#: Requested lifetime of a watch in seconds, and seconds without data after which it counts as broken.
#: Bookmarks arrive about once a minute.
LIFE = 300
SILENCE = 150.0


class Watch:
    """One watch on a separate connection. Created and read by one thread; any thread may close it."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
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
        head = request_head(client.access, "GET", with_query(path, query), METADATA if metadata_only else JSON)
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


def events(watch: Watch) -> Iterator[dict[str, Any]]:
    """Yield a watch's events as dictionaries ``{type, object}``, bookmarks included.

    Raises ApiError for an ERROR event (status 410: list again), Broken.
    """
    for _at, line in watch.lines():
        event = json.loads(line)
        if event.get("type") == "ERROR":
            raise error_of(event)
        yield event


def error_of(event: dict[str, Any]) -> ApiError:
    """Return the error of an ERROR event."""
    status = event.get("object") or {}
    return ApiError(f"watch: {status.get('message')}", int(status.get("code") or 0), str(status.get("reason") or ""))
