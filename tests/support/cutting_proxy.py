"""A TCP proxy in front of an API server that cuts, delays and refuses connections on demand."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time


class CuttingProxy:
    """Forwards connections to ``host:port``; ``cut()`` resets all that are open, in both directions.

    ``delay``: seconds that everything is held back, in both directions. ``refusing``: new connections are reset.
    """

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.cuts = 0
        self.delay = 0.0
        self.refusing = False

    def __enter__(self) -> CuttingProxy:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> int:
        """Reset every connection; return their number."""
        with self._lock:
            held, self._open = self._open, []
        for one in held:
            with contextlib.suppress(OSError):
                # A reset, not an orderly end: what was on its way is lost.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.cuts += len(held) // 2
        return len(held) // 2

    def _accept(self) -> None:
        while True:
            try:
                near, _address = self._listener.accept()
            except OSError:
                return
            try:
                if self.refusing:
                    raise ConnectionRefusedError
                far = socket.create_connection(self._to)
            except OSError:
                # A server that is not there now may be there for the next one.
                with contextlib.suppress(OSError):
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                near.close()
                continue
            with self._lock:
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
