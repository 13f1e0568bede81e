"""Debian's Chromium without a window, driven over a pipe: no port is opened, nothing is fetched.

The DevTools protocol over ``--remote-debugging-pipe``: messages are JSON, ended by a zero byte, on descriptors 3 and 4.
A real width of 390 px needs the protocol's emulation: a window is never narrower than about 500 px.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser, a context manager."""

    def __init__(self, timeout: float = 60.0) -> None:
        found = program()
        if found is None:
            raise FileNotFoundError("no chromium in PATH")
        self.timeout = timeout
        self.profile = tempfile.mkdtemp(prefix="seatrial-chromium-")
        self.messages: list[str] = []  # of the page's console, and errors that it raised
        self._number = 0
        self._buffer = b""
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # The program reads descriptor 3 and writes 4: a tiny shell-free shuffle in the child.
        arguments = [
            found,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-sync",
            "--disable-component-update",
            "--no-first-run",
            "--no-default-browser-check",
            "--hide-scrollbars",
            f"--user-data-dir={self.profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]

        def place() -> None:
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place,
            close_fds=False,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", {"url": "about:blank"}, page=False)["targetId"]
        self._session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, page=False)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the browser that this object started, and remove its profile."""
        try:
            self.call("Browser.close", page=False)
        except (OSError, TimeoutError, RuntimeError):
            self._process.kill()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method: str, parameters: dict[str, Any] | None = None, page: bool = True) -> dict[str, Any]:
        """Send one command and return its result. Raises RuntimeError with the browser's message."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if page:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _note(self, answer: dict[str, Any]) -> None:
        method, params = answer.get("method"), answer.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.messages.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.messages.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(
            ("data:", "file:", "about:")
        ):
            self.messages.append(f"fetched {params['request']['url']}")

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _write, _error = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser did not answer within {self.timeout:.0f} s")
            got = os.read(self._from, 1 << 20)
            if not got:
                raise RuntimeError("the browser ended")
            self._buffer += got
        first, _zero, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def open(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        """Show a file in a viewport of this size in CSS pixels, and wait until it and its pictures are there."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.call("Page.navigate", {"url": path.resolve().as_uri()})
        deadline = time.monotonic() + self.timeout
        ready = (
            "document.readyState === 'complete' && location.protocol === 'file:'"
            " && [...document.images].every(i => i.complete)"
        )
        while not self.value(ready):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} was not loaded within {self.timeout:.0f} s")
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        return self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})["result"].get("value")

    def result(self, expression: str) -> Any:
        """Return the result of the promise of a JavaScript expression. Raises RuntimeError if it fails."""
        arguments = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", arguments)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("rawKeyDown", "char", "keyUp") if key == "Enter" else ("rawKeyDown", "keyUp"):
            more = {"text": "\r"} if kind == "char" else {}
            self.call(
                "Input.dispatchKeyEvent",
                {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": codes[key], **more},
            )

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write a PNG of the viewport, or of the whole page."""
        shot = self.call(
            "Page.captureScreenshot", {"captureBeyondViewport": whole, **({"clip": self._all()} if whole else {})}
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def _all(self) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
