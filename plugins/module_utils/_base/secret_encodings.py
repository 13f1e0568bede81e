# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a secret is written in files: its encodings, and what blocks of base64 and dumps in a text decode to."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from .untrusted_archives import ZLIB_BEGINNINGS

#: Values shorter than WORD match as whole words only; those shorter than SHORTEST are ignored: too many matches.
WORD, SHORTEST = 8, 4
#: Base64 is decoded up to this number of times: a Secret within a Secret's value is twice encoded.
MOST_DECODED = 3
#: A block of base64: a long word, or lines that it fills and the line after them. In JSON text a line ends with \n, of
#: which the letter is not a part of the block.
_BLOCK = re.compile(
    rb"(?<![A-Za-z0-9+/_-])(?:(?<=\\)[nrt])?"
    rb"((?:(?:[A-Za-z0-9+/_-]{40,}(?:(?:\\r)?\\n|\r?\n)[ \t]{0,40})+[A-Za-z0-9+/_-]+|[A-Za-z0-9+/_-]{16,})={0,2})"
)
_LINE_ENDS = re.compile(rb"(?:\\r)?\\n|[\s=]+")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def encodings_of_secrets(secrets: Mapping[str, str]) -> dict[bytes, str]:
    """Return every encoding of known values: encoded -> description. Too short values are ignored."""
    descriptions: dict[bytes, str] = {}
    for name, value in secrets.items():
        value = str(value)
        for part in {value, *value.splitlines()} if "\n" in value else {value}:
            raw = part.strip().encode()
            if len(raw) < SHORTEST:
                continue
            spelled = [spelling.encode() for spelling in _spellings(part.strip())]
            if len(raw) >= WORD:
                spelled += [raw.hex().encode(), raw.hex().upper().encode(), *_base64_at_alignments(raw)]
                spelled += [spelling.encode() for spelling in _fully_escaped(part.strip())]
                spelled += [part.strip().encode(coding) for coding in ("utf-16-le", "utf-16-be", "utf-32-le")]
            descriptions.update(dict.fromkeys(spelled, f"the value of {name}"))
    return descriptions


def _percent_encoded(text: str) -> str:
    return quote(text, safe="")


def _lower_percent_encoded(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), quote(text, safe=""))


def _escape_html_for_json(text: str) -> str:
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign.group()):04x}", text)


#: How formats write a text inside another one: JSON (of Python, of Go), YAML, HTML and XML, shells, addresses.
_WRITERS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: _escape_html_for_json(json.dumps(text)[1:-1]),
    lambda text: _escape_html_for_json(json.dumps(text, ensure_ascii=False)[1:-1]),
    lambda text: re.sub(r"\\u00(..)", lambda code: f"\\x{code[1].upper()}", json.dumps(text)[1:-1]),
    html.escape,
    lambda text: html.escape(text, quote=False),
    lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    lambda text: html.escape(text).replace("&#x27;", "&apos;"),
    lambda text: html.escape(text, quote=False).replace('"', "&quot;"),
    lambda text: text.replace("'", "''"),
    lambda text: text.replace("'", "'\"'\"'"),
    lambda text: text.replace("'", "'\\''"),
    lambda text: re.sub(r"([^\w@%+=:,./-])", r"\\\1", text),
    lambda text: re.sub(r'([$`"\\])', r"\\\1", text),
    lambda text: text.replace("/", "\\/"),  # JSON of PHP and of some programs in C
    _percent_encoded,
    _lower_percent_encoded,
    quote_plus,
)


def _spellings(text: str) -> set[str]:
    """Return how a text is written in files, also in one format inside another."""
    once = {text, *(write(text) for write in _WRITERS)}
    return once | {write(spelling) for spelling in once for write in _WRITERS}


#: Escapes of a character and of a byte, as some writers use them for any of these: JSON, also in JSON, HTML and XML.
_OF_CHARACTERS = (
    *("\\u{:04x}", "\\u{:04X}", "\\\\u{:04x}", "\\\\u{:04X}", "\\U{:08x}", "\\U{:08X}", "\\u{{{:x}}}"),
    *("&#{};", "&#{:03};", "&#{:04};", "&#{:05};", "&amp;#{};"),
    *(f"&#{sign}{{:{digits}}};" for sign in "xX" for digits in ("x", "X", "04x", "04X")),
)
#: The same of bytes: addresses, once and twice, texts of programs.
_OF_BYTES = (
    *("%{:02x}", "%{:02X}", "%25{:02x}", "%25{:02X}", "={:02X}"),
    *("\\x{:02x}", "\\x{:02X}", "\\\\x{:02x}", "\\{:03o}", "\\\\{:03o}"),
)
#: What is between the bytes of a dump.
_BETWEEN = (" ", ":", "-", ", ", " 0x", ", 0x", ",0x")


def _fully_escaped(text: str) -> Iterator[str]:
    """Yield how a text is written if each of its characters or bytes is escaped, also as a dump of bytes."""
    raw = text.encode()
    for escape in _OF_CHARACTERS:
        yield "".join(escape.format(ord(sign)) for sign in text)
    for escape in _OF_BYTES:
        yield "".join(escape.format(byte) for byte in raw)
    for between in _BETWEEN:
        for code in ("{:02x}", "{:02X}"):
            yield between.join(code.format(byte) for byte in raw)
    yield ", ".join(map(str, raw))


def _base64_at_alignments(raw: bytes) -> list[bytes]:
    """Return the base64 encodings of ``raw`` at each of the three alignments, without the edges."""
    encodings = []
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + raw)[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
        encodings += [text, text.translate(bytes.maketrans(b"+/", b"-_"))]
    return [text for text in encodings if len(text) >= WORD]


def decode_base64_blocks(data: bytes, times: int = MOST_DECODED) -> Iterator[tuple[int, int, bytes]]:
    """Yield start and end of each block of base64 in ``data``, and its content, also unpacked; again for blocks in it.

    A long word that is no base64 yields meaningless bytes. times: number of times that a block is decoded at most.
    """
    for block in _BLOCK.finditer(data):
        text = _LINE_ENDS.sub(b"", block[1]).translate(_STANDARD)
        content = binascii.a2b_base64(text[: len(text) - (len(text) % 4 == 1)] + b"==")
        unpacked = _unpack_begin(content)
        for decoded in (content, unpacked) if unpacked else (content,):
            yield block.start(1), block.end(1), decoded
            if times > 1:
                for _start, _end, inner in decode_base64_blocks(decoded, times - 1):
                    yield block.start(1), block.end(1), inner


#: How data of gzip and of zlib begin. What is in a text unpacks to at most this many times its size, and some more.
_PACKED = (b"\x1f\x8b\x08", *ZLIB_BEGINNINGS)
_MOST_RATIO, _SOME_MORE = 20, 1 << 16


def _unpack_begin(data: bytes) -> bytes:
    """Return what data of gzip or zlib unpack to, up to a limit, and nothing for any others."""
    try:
        most = _MOST_RATIO * len(data) + _SOME_MORE
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, most) if data.startswith(_PACKED) else b""
    except zlib.error:
        return b""


#: A line of a dump: an offset and groups of digits, or several groups; then perhaps the characters.
_DUMP_LINE = re.compile(
    rb"^[ \t]{0,16}(?:(?:0x)?[0-9a-fA-F]{6,16}:?[ \t]{1,8}|(?=(?:[0-9a-fA-Fx]{2,10}[,:]?[ \t]{1,3}){3}))"
    rb"((?:(?:0x)?[0-9a-fA-F]{2,8}[,:]?[ \t]{1,3}){0,64}(?:0x)?[0-9a-fA-F]{2,8})(?![0-9a-zA-Z])[^\n]{0,200}\n?",
    re.MULTILINE,
)
_GROUP = re.compile(rb"(?<!x)[0-9a-fA-F]{2,8}\b")
#: Lines of hexadecimal digits, and numbers, perhaps with an offset in front of those of a line.
_HEX_LINES = re.compile(rb"(?<!\w)(?:[0-9a-fA-F]{16,256}\r?\n[ \t]{0,40})+[0-9a-fA-F]{2,256}(?!\w)")
_NUMBERS = re.compile(
    rb"(?<![\w.])(?:[0-9]{1,3}[,;]?\s{1,40}(?:[0-9]{7,8}[ \t]{1,8})?){7,}[0-9]{1,3}(?![\w.])",
)


def decode_dumps(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start and end of each dump of several lines in ``data``, and the bytes that it shows.

    These are dumps of xxd, hexdump and od with bytes or words in hexadecimal, octal or decimal digits, and lists of
    numbers with a number a line.
    """
    for block in _HEX_LINES.finditer(data):
        digits = b"".join(block.group().split())
        yield block.start(), block.end(), binascii.unhexlify(digits[: len(digits) // 2 * 2])
    for block in _NUMBERS.finditer(data):
        numbers = [int(number) for number in re.findall(rb"[0-9]+", block.group()) if len(number) < 4]
        yield block.start(), block.end(), bytes(number for number in numbers if number < 256)
    start = end = -1
    groups: list[bytes] = []
    for line in _DUMP_LINE.finditer(data):
        if line.start() != end and groups:
            yield from ((start, end, content) for content in _contents_of_groups(groups))
            groups = []
        start = start if groups else line.start()
        end = line.end()
        groups += _GROUP.findall(line[1].replace(b"0x", b""))
    yield from ((start, end, content) for content in _contents_of_groups(groups))


def _contents_of_groups(groups: list[bytes]) -> Iterator[bytes]:
    """Yield the bytes that groups of digits show: of each in its order, in the reverse one, as octal words."""
    if groups:
        whole = [binascii.unhexlify(group[: len(group) // 2 * 2]) for group in groups]
        yield b"".join(whole)
        yield b"".join(group[::-1] for group in whole)
        if all(len(group) == 6 and not group.translate(None, b"01234567") for group in groups):
            yield b"".join((int(group, 8) & 0xFFFF).to_bytes(2, "little") for group in groups)
