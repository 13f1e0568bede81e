# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the files of a run directory.

Documents (YAML, JSON) are replaced atomically: a reader sees the old or the new one, never a part.
JSON-lines files are append-only: one process appends whole lines; a truncated last line (the writer was killed) is not
a record. With the environment variable ``SEATRIAL_VALIDATE`` set, as in all tests, everything is validated against its
JSON Schema before it is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from . import disk_reserve
from .errors import AccessError, DataError, OwnershipError
from .point_clock import MonotonicWallClock
from .untrusted_input import escape_control_characters, parse_json, parse_yaml

VALIDATE = "SEATRIAL_VALIDATE"
#: Most bytes of a document, and of a line of a JSON-lines file: whoever sends a run directory must not fill the memory.
MOST_DOCUMENT, MOST_LINE = 1 << 29, 1 << 26


def to_plain_types(value: Any) -> Any:
    """Return ``value`` rebuilt from plain dict, list, str, int, float, bool and None.

    Ansible tags strings, and yaml.safe_dump fails on a tagged string in the middle of a file. A number that is not
    finite becomes None: JSON does not have it, and other programs refuse a file with ``Infinity`` or ``NaN``.
    """
    return json.loads(json.dumps(value, default=str), parse_constant=lambda _name: None)


def validate_schema_if_enabled(name: str, value: Any) -> None:
    """Validate ``value`` against the schema called ``name`` when SEATRIAL_VALIDATE is set.

    Raises DataError with the location in the document.
    """
    if not os.environ.get(VALIDATE):
        return
    value = to_plain_types(value)
    kind = value.get("type") if isinstance(value, dict) else None
    validator = _compiled_schema_validator(name, kind if isinstance(kind, str) else "")
    if not validator.is_valid(value):
        from jsonschema.exceptions import best_match

        error = best_match(validator.iter_errors(value))
        place = "/".join(str(part) for part in error.absolute_path) or "(top)"
        raise DataError(f"{name}: {place}: {error.message}")


@functools.cache
def _compiled_schema_validator(name: str, kind: str) -> Any:
    """Return a compiled validator; of a JSON-lines schema, for lines of type ``kind``."""
    import jsonschema

    from .schemas import schema_catalogue  # imported only where writes are validated

    schema = schema_catalogue.schema_by_name(name)
    for line_schema in schema.get("oneOf", ()):
        if line_schema["properties"].get("type", {}).get("const") == kind:
            schema = line_schema
    return jsonschema.Draft202012Validator(schema)


def mode_by_umask(mode: int) -> int:
    """Return a mode without the bits of this process's umask, which is read without changing it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return mode & ~int(line.split()[1], 8)
    return mode & 0o755


def keep_everybody_from_writing() -> None:
    """Add the bit to the umask of this process, so that with umask 000 nobody can replace programs and records."""
    os.umask(os.umask(0o002) | 0o002)


def replace_text(path: str | os.PathLike[str], text: str, mode: int | None = None) -> None:
    """Write ``text`` to ``path`` atomically: a temporary file in the same directory, synced, then renamed.

    mode: by default 0664 without the bits of the umask.

    On a full disk the space that the run has reserved is used.
    """
    target = Path(path)
    disk_reserve.write_with_reserve(
        target, lambda: _replace_text(target, text, mode_by_umask(0o664) if mode is None else mode)
    )


def _replace_text(target: Path, text: str, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_bytes_if_changed(path: str | os.PathLike[str], content: bytes) -> bool:
    """Write ``content`` to ``path`` unless it is there; return whether it was written. Missing folders are created.

    Renamed when complete: after a kill, a partial file would look like a whole one.
    """
    target = Path(path)
    if target.is_file() and target.read_bytes() == content:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f".{target.name}.half")
    half.write_bytes(content)
    half.replace(target)
    return True


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 checksum of a file as hexadecimal text."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(path: str | os.PathLike[str], value: Any, schema: str = "") -> None:
    """Write ``value`` as indented JSON, validated against ``schema`` if given."""
    if schema:
        validate_schema_if_enabled(schema, value)
    replace_text(path, json.dumps(to_plain_types(value), indent=2, sort_keys=False) + "\n")


def write_yaml(path: str | os.PathLike[str], value: Any, schema: str = "", head: str = "") -> None:
    """Write ``value`` as YAML in the given order, with ``head`` as comment lines above it."""
    import yaml

    if schema:
        validate_schema_if_enabled(schema, value)
    comment = "".join(f"# {line}\n" for line in head.splitlines())
    body = yaml.safe_dump(to_plain_types(value), sort_keys=False, allow_unicode=True, width=120)
    replace_text(path, f"---\n{comment}{body}")


def read_yaml(path: str | os.PathLike[str], unsafe: type[str] = str) -> Any:
    """Read one YAML document, as parse_yaml does. Raises DataError naming the file if it is missing or not YAML."""
    try:
        text = _read_document(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not readable as YAML: it is not text in UTF-8") from error
    return parse_yaml(text, str(path), unsafe)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read one JSON document. Raises DataError naming the file if it is missing or truncated."""
    try:
        return parse_json(_read_document(path))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except ValueError as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error


def _read_document(path: str | os.PathLike[str]) -> str:
    with open_regular_file(path) as stream:
        if (size := os.fstat(stream.fileno()).st_size) > MOST_DOCUMENT:
            raise DataError(f"{path}: it has {size:,} bytes, and {MOST_DOCUMENT:,} are the most of a document")
        return stream.read().decode("utf-8")


@contextlib.contextmanager
def hold_folder_lock(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, whose files other processes may change at the same time. It ends with this process.

    A file system without locks has none. Raises DataError if the folder can't be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DataError(f"{folder} can't be opened: {error.strerror}") from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def path_in_folder(folder: Path, name: str) -> Path:
    """Return the path of a file whose name a server has chosen. Raises AccessError for one outside of the folder."""
    path = Path(os.path.normpath(folder / name))
    if not path.is_relative_to(os.path.normpath(folder)) or not name.isprintable():
        raise AccessError(
            f"the server sent the name {escape_control_characters(name[:100])!r}, which can't be that of a file here"
        )
    return path


def open_regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read it. Raises DataError for a pipe or a device, which may have no end, and OSError."""
    # A pipe without a writer would block the usual open().
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise DataError(f"{path}: it is no regular file")


def read_text_begin(path: str | os.PathLike[str], most: int = 1 << 20) -> str:
    """Return the first ``most`` bytes of a text file, which a stranger may have written; empty if there is none."""
    if not os.path.isfile(path):
        return ""
    with open_regular_file(path) as stream:
        return stream.read(most).decode("utf-8", "replace")


def lines_up_to_length(stream: BinaryIO, path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a file. Raises DataError for one that is too long."""
    while raw := stream.readline(MOST_LINE):
        if len(raw) == MOST_LINE and not raw.endswith(b"\n"):
            raise DataError(f"{path}: a line has more than {MOST_LINE:,} bytes")
        yield raw


def read_json_lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON-lines file; a truncated last line is skipped.

    Raises DataError for a damaged line in the middle.
    """
    with open_regular_file(path) as stream:
        for number, raw in enumerate(lines_up_to_length(stream, path), start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                record = parse_json(raw)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not a JSON record: {error}") from error
            yield record


def _json_line_encoder() -> Callable[[Any], str]:
    """Return a function that encodes a value as JSON on one line, without spaces.

    One encoder for all records: JSONEncoder creates one per record, which takes longer than the encoding.
    """
    usual = json.JSONEncoder(separators=(",", ":"))
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return usual.encode
    text = json.encoder.encode_basestring_ascii
    encoder = make(None, usual.default, text, None, ":", ",", False, False, True)
    return lambda value: "".join(encoder(value, 0))


encode = _json_line_encoder()


def encode_json_line(record: dict[str, Any], schema: str = "") -> bytes:
    """Return ``record`` as one line of a JSON-lines file, newline included."""
    if schema:
        validate_schema_if_enabled(schema, record)
    return encode(record).encode() + b"\n"


def write_json_lines(path: str | os.PathLike[str], records: Iterable[dict[str, Any]], schema: str = "") -> int:
    """Replace ``path`` by ``records``, one per line; return their number."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    count = 0
    checked = schema if os.environ.get(VALIDATE) else ""  # looked up once, not per line
    try:
        with open(temporary, "wb") as stream:
            for record in records:
                stream.write(encode_json_line(record, checked))
                count += 1
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count


def cut_torn_last_line(handle: int) -> int:
    """Cut a torn last line off the file ``handle`` (open for reading and writing); return the number of bytes cut."""
    size = os.fstat(handle).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        block = os.pread(handle, end - start, start)
        at = block.rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return size - end


class JsonlAppender:
    """A JSON-lines file to which only this process appends, whole lines, from any thread.

    Raises OwnershipError if another process has the file open.
    """

    def __init__(self, path: Path, schema: str, who: str) -> None:
        self.path = path
        self.schema = schema
        self._validate = bool(os.environ.get(VALIDATE))
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            raise OwnershipError(
                f"{path}: another {who} is writing to it; a point directory permits one at a time"
            ) from error
        self.repaired = cut_torn_last_line(self._handle)

    def write(self, record: dict[str, Any]) -> None:
        """Append one record. Raises DataError if it cannot be written whole."""
        if self._validate:
            validate_schema_if_enabled(self.schema, record)
        self._append(f"{encode(record)}\n".encode())

    def write_row(self, row: str) -> None:
        """Append a record that is JSON text."""
        self.write_rows((row,))

    def write_rows(self, rows: Sequence[str]) -> None:
        """Append records that are JSON text, in one write."""
        if self._validate:
            for row in rows:
                validate_schema_if_enabled(self.schema, parse_json(row))
        if rows:
            self._append("\n".join((*rows, "")).encode())

    def _append(self, data: bytes) -> None:
        try:
            # One write with O_APPEND: lines of several threads never mix.
            written = os.write(self._handle, data)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror}") from error
        if written != len(data):
            raise DataError(f"{self.path} cannot be written: only {written} of {len(data)} bytes were written")

    def sync(self) -> None:
        """Sync the file to disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file and release its lock (in a forked child, only the child's handle)."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def session_line(
    schema: str, run: str, point: str, clock: MonotonicWallClock, client: int | None = None
) -> dict[str, Any]:
    """Return the first line of a process in a file. ``client``: its number, if the load has several."""
    line = {
        "type": "session",
        "schema": schema,
        "run": run,
        "point": point,
        "anchor": clock.anchor(),
        "pid": os.getpid(),
    }
    return line if client is None else {**line, "client": client}
