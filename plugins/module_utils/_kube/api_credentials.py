# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of an API server and our credentials for it, which may have to be requested or renewed."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .proxy_tunnel import Proxy

#: Seconds before its end at which a credential is renewed.
_EARLY = 10.0


@dataclass(frozen=True)
class Credentials:
    """Credentials from a source. ``expires``: seconds since the epoch, None if unknown."""

    authorization: str = field(default="", repr=False)  # value of the header
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    expires: float | None = None


@dataclass
class Access:
    """One API server and our credentials for it, for use by many threads. ``repr`` shows no credential."""

    server: str
    host: str
    port: int
    prefix: str  # path below which the API lies, without a trailing slash; mostly empty
    source: str  # which kubeconfig and context, for errors
    namespace: str = "default"
    proxy: Proxy | None = None
    server_name: str = ""
    context: ssl.SSLContext | None = field(default=None, repr=False)  # None: plain HTTP
    insecure: bool = False
    #: Called for dynamic credentials: at the first request if ``held`` is None, and to renew them.
    reader: Callable[[], Credentials] | None = field(default=None, repr=False)
    held: str | None = field(default="", repr=False)
    expires: float | None = None
    #: Creates a TLS context with another client certificate.
    make_context: Callable[[bytes, bytes], ssl.SSLContext] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def authorization(self) -> str:
        """The value of the Authorization header, requested on first use."""
        if self.held is None:
            with self._lock:
                if self.held is None:
                    self._read()
        return self.held or ""

    def refresh(self, used: str | None = None) -> bool:
        """Read the credentials again (a token file, a program, a login); return whether they may have changed.

        ``used``: the refused authorization. If another thread has renewed it since, nothing is read.
        """
        with self._lock:
            if used is not None and self.held is not None and used != self.held:
                return True
            if self.reader is None:
                return False
            before = self.held
            return self._read() or self.held != before

    def renew(self) -> None:
        """Read the credentials again if they are about to expire. Call before opening a connection."""
        if self.expires is not None and time.time() > self.expires - _EARLY and self.reader is not None:
            with self._lock:
                if time.time() > self.expires - _EARLY:
                    self._read()

    def take(self, found: Credentials) -> bool:
        """Use these credentials from now on; return whether they include a client certificate."""
        self.held, self.expires = found.authorization, found.expires
        if found.certificate and found.key and self.make_context is not None and self.context is not None:
            self.context = self.make_context(found.certificate, found.key)
            return True
        return False

    def insecure_warning(self) -> str:
        """Return a warning about the unverified server certificate."""
        return (
            f"{self.source}: insecure-skip-tls-verify is set: {self.server} is not authenticated, so an attacker may "
            f"read credentials and forge results. Set certificate-authority instead"
        )

    def _read(self) -> bool:
        if self.reader is None:
            raise AssertionError("credentials without a reader can't be read")
        return self.take(self.reader())
