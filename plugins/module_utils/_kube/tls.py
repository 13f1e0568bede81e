# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS: contexts from certificates in memory, and a connected socket that uses memory buffers.

ssl.SSLSocket reads each record with two system calls, and calls poll() before a write and before a blocking read; a
request with its reply takes six system calls there and two here, each of which delays other threads. Moreover
bytes can be received as soon as they arrive and decrypted later.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


def make_tls_context(
    authority: bytes | None, certificate: bytes | None, key: bytes | None, insecure: bool, source: str
) -> ssl.SSLContext:
    """Return a client context that trusts ``authority`` (the system's if None) and presents ``certificate``.

    All three are PEM. Raises InputError naming the invalid one, without its content.
    """
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"{source}: certificate-authority is not a PEM certificate") from error
    # The default since Python 3.13; the CAs of many clusters lack the extensions that it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if bool(certificate) != bool(key):
        present, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise InputError(f"{source}: it has {present} but no {missing}")
    if certificate and key:
        with (
            _temporary_file_with_content(certificate) as certificate_file,
            _temporary_file_with_content(key) as key_file,
        ):
            try:
                # An empty password prevents OpenSSL from prompting for one.
                context.load_cert_chain(certificate_file, key_file, password=lambda: "")
            except (ssl.SSLError, ValueError) as error:
                raise InputError(
                    f"{source}: client-certificate and client-key can't be used (not PEM, encrypted, or not a pair)"
                ) from error
    return context


@contextmanager
def _temporary_file_with_content(content: bytes) -> Iterator[str]:
    """Yield a file with ``content``, in memory if possible: ssl reads keys only from files."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("seatrial", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile() as stream:
            stream.write(content)
            stream.flush()
            yield stream.name


#: Most seconds of a handshake: each of its bytes may come just before the timeout.
MOST_HANDSHAKE = 120.0
#: Bytes received from the kernel at once, and the maximum of one TLS record.
BLOCK = 1 << 16
_RECORD = 1 << 14
#: Socket option of Linux: a receive also returns when its last bytes arrived, by the wall clock, in this format.
_TIMESTAMPS = 35
_TIMESTAMP = struct.Struct("@ll")  # seconds, nanoseconds
_CONTROL = socket.CMSG_SPACE(_TIMESTAMP.size)
#: Maximum change of the difference between the wall clock and the monotonic one between two receives, seconds.
_SAME = 0.0001


class TlsStream:
    """A socket, with TLS or plain. sendall, recv, settimeout, shutdown and close are those of a socket."""

    def __init__(
        self, plain: socket.socket, context: ssl.SSLContext | None, server_name: str, timeout: float | None = None
    ) -> None:
        """Do the TLS handshake. ``timeout``: of later calls, in seconds. Raises OSError, SSLCertVerificationError."""
        self._plain = plain
        self._receive = plain.recvmsg
        self._timeout: float | None = timeout
        self._ahead = 0.0  # of the wall clock, seconds
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=server_name) if context is not None else None
        until = time.monotonic() + MOST_HANDSHAKE
        while self._tls is not None:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                if time.monotonic() > until:
                    raise ConnectionAbortedError(f"no TLS handshake within {MOST_HANDSHAKE:g} s") from None
                data = plain.recv(_RECORD)
                if not data:
                    raise ConnectionResetError("the server closed the connection") from None
                self._in.write(data)
        self._flush()
        self.settimeout(timeout)

    def sendall(self, data: bytes) -> None:
        """Send all of ``data``."""
        if self._tls is not None:
            self._tls.write(data)
            sealed = self._out.read()
        else:
            sealed = data
        try:
            done = self._plain.send(sealed)  # usually everything, at half the cost of sendall
            if done < len(sealed):
                self._plain.sendall(sealed[done:])
        except BlockingIOError as error:
            raise self._late(error) from error

    def recv(self, size: int) -> bytes:
        """Return received data, waiting for it; empty at the end."""
        try:
            tls = self._tls
            if tls is None:
                return self._plain.recv(size)
            while True:
                if not self._in.pending and not tls.pending():
                    data = self._plain.recv(_RECORD)
                    if not data:
                        return data
                    self._in.write(data)
                try:
                    return tls.read(size)
                except ssl.SSLWantReadError:
                    data = self._plain.recv(_RECORD)
                    if not data:
                        return data
                    self._in.write(data)
        except BlockingIOError as error:
            raise self._late(error) from error

    def date_arrivals(self) -> None:
        """Let the system record when data arrive, if it can: receive() need not be called soon then."""
        self._ahead = time.time() - time.monotonic()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._plain.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)

    def receive(self) -> tuple[float, bytes]:
        """Return raw bytes from the network for decrypt(), empty at the end, and when they had arrived.

        The time is one of time.monotonic(), never too early.
        """
        data, recorded, _flags, _address = self._receive(BLOCK, _CONTROL)
        # In this order: a pause between the two makes the result later, never too early.
        wall, now = time.time(), time.monotonic()
        before, self._ahead = self._ahead, wall - now
        if recorded and abs(self._ahead - before) < _SAME:  # nobody set the clock meanwhile
            seconds, nanoseconds = _TIMESTAMP.unpack(recorded[0][2])
            return min(now, seconds + nanoseconds * 1e-9 - self._ahead + _SAME), data
        return now, data

    def decrypt(self, data: bytes) -> bytes:
        """Return the plaintext of bytes from receive(), and of an earlier incomplete record that they complete."""
        if self._tls is None:
            return data
        held, read = self._in, self._tls.read
        held.write(data)
        chunks: list[bytes] = []
        # A record leaves the buffer as a whole, so an empty buffer has no further one.
        with contextlib.suppress(ssl.SSLWantReadError):  # the last record is incomplete
            while held.pending and (text := read(_RECORD)):  # empty: the server closed the TLS session
                chunks.append(text)
        self._flush()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def fileno(self) -> int:
        """Return the socket's number, for poll()."""
        return self._plain.fileno()

    def settimeout(self, timeout: float | None) -> None:
        """Set the timeout of send() and recv() in seconds: none with None, no waiting with 0.

        The kernel measures it: Python's timeouts call poll() before each operation.
        """
        self._timeout = timeout
        if timeout == 0:
            self._plain.setblocking(False)
            return
        self._plain.settimeout(None)
        left = timeout or 0.0
        value = struct.pack("ll", int(left), int(left % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._plain.setsockopt(socket.SOL_SOCKET, option, value)

    def setblocking(self, blocking: bool) -> None:
        """Let recv() raise BlockingIOError instead of waiting, until settimeout()."""
        self.settimeout(None if blocking else 0.0)

    def shutdown(self, how: int) -> None:
        """End reads at once, also one that blocks another thread."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._plain.close()

    def _late(self, error: BlockingIOError) -> OSError:
        return error if self._timeout == 0 else TimeoutError("timed out")

    def _flush(self) -> None:
        sealed = self._out.read()
        if sealed:
            self._plain.sendall(sealed)
