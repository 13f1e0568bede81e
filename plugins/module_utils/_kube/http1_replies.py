# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decoding HTTP/1.1 replies: header lines, length, chunked transfer coding."""

from __future__ import annotations

#: Most bytes of the lines before the body of a reply, and of those before a chunk and after the last one.
MOST_HEAD = 1 << 20


def format_host_and_port(host: str, port: int | str) -> str:
    """Return host and port as in a URL (RFC 3986, 3.2), an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def header_value(head: bytes, name: bytes) -> str | None:
    """Return the value of a header, None without it. ``name``: in lower case."""
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip().decode("latin-1")


class ChunkedBodyDecoder:
    """Decodes the chunked transfer coding (RFC 9112, 7.1) of a body that arrives in pieces of any size."""

    def __init__(self, chunked: bool) -> None:
        self.chunked = chunked
        self.ended = False
        self._held = b""
        self._left = 0  # missing bytes of the present chunk, including its line end

    def feed(self, data: bytes) -> bytes:
        """Return the part of the body in ``data``. Raises ValueError for invalid chunked coding."""
        if not self.chunked:
            return data
        data = self._held + data if self._held else data
        self._held = b""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                # The last two bytes of a chunk are its line end, not part of the body.
                keep = len(piece) - max(0, 2 - (self._left - len(piece)))
                parts.append(piece[: max(keep, 0)])
                self._left -= len(piece)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._hold(data[at:])
                break
            size = int(data[at:end].split(b";")[0], 16)
            if size < 0:
                raise ValueError("a chunk of the reply has a negative size")
            if size == 0:
                # Trailers end with an empty line; API servers send none.
                if data.find(b"\r\n\r\n", end) < 0 and not data.startswith(b"\r\n", end + 2):
                    self._hold(data[at:])
                    break
                self.ended = True
            at = end + 2
            if size and at + size + 2 <= len(data):  # usually the chunk is complete
                parts.append(data[at : at + size])
                at += size + 2
            else:
                self._left = size + 2
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, data: bytes) -> None:
        if len(data) > MOST_HEAD:
            raise ValueError(f"a line of the reply has more than {MOST_HEAD} bytes")
        self._held = data


def parse_content_length(head: bytes) -> int | None:
    """Return Content-Length, None without it. Go's spelling of it is found without parsing all lines."""
    at = head.find(b"\r\nContent-Length: ")
    if at >= 0:
        end = head.find(b"\r\n", at + 18)
        return int(head[at + 18 : end if end >= 0 else len(head)])
    text = header_value(head, b"content-length")
    return int(text) if text is not None else None


def parse_status_code(head: bytes) -> int:
    """Return the status of a reply. Raises ValueError if it is not HTTP/1.x."""
    if not head.startswith(b"HTTP/1."):
        raise ValueError("the reply is not HTTP/1.x")
    return int(head[9:12])
