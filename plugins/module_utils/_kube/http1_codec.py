# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an answer of HTTP/1.1 is written: header lines, its length, the chunked coding."""

from __future__ import annotations


def authority(host: str, port: int | str) -> str:
    """Return host and port as they stand in an address (RFC 3986, 3.2); an IPv6 address goes into brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def header(head: bytes, name: bytes) -> str | None:
    """Return the value of a header, given its name in lower case; None when it is not there."""
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip().decode("latin-1")


class Chunks:
    """Takes the chunked transfer coding (RFC 9112, 7.1) off a body that comes in pieces of any size."""

    def __init__(self, chunked: bool) -> None:
        self.chunked = chunked
        self.ended = False
        self._held = b""
        self._left = 0  # bytes of the present chunk that are still to come, its line end included

    def feed(self, data: bytes) -> bytes:
        """Return what ``data`` adds to the body. Raises ValueError when it is no chunked coding."""
        if not self.chunked:
            return data
        if not self._held and not self._left:
            # Mostly one whole chunk comes at a time: an event of a watch.
            end = data.find(b"\r\n")
            if end > 0:
                size = int(data[:end].split(b";")[0], 16)
                if size and len(data) == end + size + 4:
                    return data[end + 2 : -2]
        data = self._held + data if self._held else data
        self._held = b""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                # The last two bytes of a chunk are its line end and no part of the body.
                keep = len(piece) - max(0, 2 - (self._left - len(piece)))
                parts.append(piece[: max(keep, 0)])
                self._left -= len(piece)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._held = data[at:]
                break
            size = int(data[at:end].split(b";")[0], 16)
            if size == 0:
                # Trailers end with an empty line; API servers send none.
                if data.find(b"\r\n\r\n", end) < 0 and not data.startswith(b"\r\n", end + 2):
                    self._held = data[at:]
                    break
                self.ended = True
            at = end + 2
            self._left = size + 2
        return parts[0] if len(parts) == 1 else b"".join(parts)


def length(head: bytes) -> int | None:
    """Return what Content-Length says; spelled as Go's servers do it is found without looking at every other line."""
    at = head.find(b"\r\nContent-Length: ")
    if at >= 0:
        end = head.find(b"\r\n", at + 18)
        return int(head[at + 18 : end if end >= 0 else len(head)])
    found = header(head, b"content-length")
    return int(found) if found is not None else None


def status(head: bytes) -> int:
    """Return the status of an answer. Raises ValueError when it is none."""
    if not head.startswith(b"HTTP/1."):
        raise ValueError("the answer is not HTTP/1.x")
    return int(head[9:12])
