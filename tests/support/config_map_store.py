"""The ConfigMaps and Secrets of an API server, in memory, behind the client of the collection."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client


class ConfigMapStore(Client):
    """Takes POST and merge PATCH. ``written``: bytes of all writes. ``before``, ``after``: called around each one."""

    def __init__(self) -> None:
        self.access = SimpleNamespace(server="https://cluster.example.com")  # type: ignore[assignment]
        self.held: dict[str, dict[str, Any]] = {}
        self.written = 0
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def request(  # type: ignore[override]
        self, method: str, path: str, body: Any = None, query: Any = None, content_type: str = "", accept: str = ""
    ) -> Any:
        self.before()
        assert sum(len(base64.b64decode(one)) for one in body.get("binaryData", {}).values()) <= 1 << 20
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.held:
                raise ApiError("there is one", 409, "AlreadyExists")
            self.held[name] = json.loads(json.dumps(body))
        else:
            name = path.rpartition("/")[2]
            for key, value in body.items():
                self.held.setdefault(name, {}).setdefault(key, {}).update(value)
        # Every write stores the whole object.
        self.written += len(json.dumps(self.held[name]))
        self.after()
        return self.held[name]

    def get(  # type: ignore[override]
        self, _kind: Any, name: str, _namespace: str = "", metadata_only: bool = False
    ) -> dict[str, Any] | None:
        return self.held.get(name)
