# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a kubeconfig, read and checked as kubectl does (client-go, tools/clientcmd), and the files it names.

A field whose value has another type, and a name that occurs twice, is refused wherever it is in the file. In the
entries that are used, kubectl ignores a field that it does not know; here it is refused, because it is mostly misspelt.

A run directory is data, and may come from anybody: for a kubeconfig in it no program is run, and no file outside of it
is read, because the content of such a file would be sent to the server of the kubeconfig.
"""

from __future__ import annotations

import base64
import binascii
import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    suggest_similar_name,
)

from . import read_yaml_like_kubectl

_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
#: What a control character in a header would do is up to the server.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class ChosenEntries:
    """The entries of one context; ``name`` is the context's."""

    name: str
    context: dict[str, Any]
    cluster: dict[str, Any]
    user: dict[str, Any]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(item is None or isinstance(item, str) for item in value)


def _is_text_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(item is None or _is_texts(item) for item in value.values())


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


#: What is wrong with a value of another type, in words, and how to tell.
_Type = tuple[str, Callable[[Any], bool]]
TEXT: _Type = ("must be text: put it into quotes", _is_text)
TRUTH: _Type = ("must be true or false", lambda value: isinstance(value, bool))
TEXTS: _Type = ("must be a list of texts", _is_texts)
BASE64: _Type = ("is not base64", _is_base64)
LIST: _Type = ("must be a list", lambda value: isinstance(value, list))
MAPPING: _Type = ("must be a mapping", lambda value: isinstance(value, dict))

_CLUSTER = {
    **dict.fromkeys(("server", "tls-server-name", "certificate-authority", "proxy-url"), TEXT),
    **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), TRUTH),
    "certificate-authority-data": BASE64,
    "extensions": LIST,
}
_USER = {
    **dict.fromkeys(("client-certificate", "client-key", "token", "tokenFile"), TEXT),
    **dict.fromkeys(("username", "password", "as", "as-uid"), TEXT),
    **dict.fromkeys(("client-certificate-data", "client-key-data"), BASE64),
    "as-groups": TEXTS,
    "as-user-extra": ("must be a mapping of lists of texts", _is_text_lists),
    **dict.fromkeys(("exec", "auth-provider"), MAPPING),
    "extensions": LIST,
}
_CONTEXT = {**dict.fromkeys(("cluster", "user", "namespace"), TEXT), "extensions": LIST}
_EXEC = {
    **dict.fromkeys(("command", "apiVersion", "installHint", "interactiveMode"), TEXT),
    "args": TEXTS,
    "env": LIST,
    "provideClusterInfo": TRUTH,
}
_VARIABLE = {"name": TEXT, "value": TEXT}
_TOP = {
    **dict.fromkeys(("apiVersion", "kind", "current-context"), TEXT),
    **dict.fromkeys(("clusters", "users", "contexts", "extensions"), LIST),
    "preferences": MAPPING,
}
_ENTRIES = {"clusters": ("cluster", _CLUSTER), "users": ("user", _USER), "contexts": ("context", _CONTEXT)}


def read_kubeconfig_document(where: Path) -> dict[str, Any]:
    """Return the checked document of a kubeconfig. Raises InputError naming the file and the invalid entry."""
    import yaml

    try:
        config = read_yaml_like_kubectl.load_first_document(where.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"kubeconfig {where}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"kubeconfig {where}: can't be read: {describe_error_cause(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(
            f"kubeconfig {where}: not readable as YAML: {read_yaml_like_kubectl.describe_yaml_error(error)}"
        ) from error
    if not isinstance(config, dict):
        what = "it is empty" if config is None else "the document is not a dictionary"
        raise InputError(f"kubeconfig {where}: not a kubeconfig: {what}")
    _check_fields(config, _TOP, f"kubeconfig {where}", known_only=True)
    kind = (config.get("apiVersion") or "v1", config.get("kind") or "Config")
    if kind != ("v1", "Config"):
        raise InputError(f"kubeconfig {where}: it is a {kind[1]} of {kind[0]}, not a Config of v1")
    for plural, (singular, fields) in _ENTRIES.items():
        seen: set[str] = set()
        for number, entry in enumerate(config.get(plural) or []):
            place = f"kubeconfig {where}: {plural}[{number}]"
            _check_fields(entry or {}, {"name": TEXT, singular: MAPPING}, place)
            name = (entry or {}).get("name") or ""
            if name in seen:
                raise InputError(f"kubeconfig {where}: {plural} has two entries of the name '{name}'")
            seen.add(name)
            held = (entry or {}).get(singular) or {}
            _check_fields(held, fields, f"{place}, {singular} '{name}'")
            if plural == "users":
                _check_exec_types(held.get("exec") or {}, f"{place}, {singular} '{name}': exec")
    return config


def entries_of_context(config: dict[str, Any], context: str, where: Path) -> ChosenEntries:
    """Return the entries of ``context`` (the current one if empty), which can be used. Raises InputError."""
    chosen = context or config.get("current-context") or ""
    if not chosen:
        raise InputError(f"kubeconfig {where}: it has no current-context: set a context")
    entry = _find_named_entry(config, "contexts", chosen, where)
    cluster = _find_named_entry(config, "clusters", entry.get("cluster") or "", where)
    user = _find_named_entry(config, "users", entry["user"], where) if entry.get("user") else {}
    source = f"kubeconfig {where}, context '{chosen}'"
    for held, fields in ((entry, _CONTEXT), (cluster, _CLUSTER), (user, _USER), (user.get("exec") or {}, _EXEC)):
        _check_fields(held, fields, source, known_only=True)
    if entry.get("namespace") and not _NAMESPACE.fullmatch(entry["namespace"]):
        raise InputError(f"{source}: namespace '{entry['namespace']}' is not a valid name of a namespace")
    _check_pairs(cluster, user, source)
    _check_methods(user, source)
    return ChosenEntries(chosen, entry, cluster, user)


def describe_error_cause(error: Exception) -> str:
    """Return the cause of an error of the operating system, in words."""
    return getattr(error, "strerror", None) or type(error).__name__


def _find_named_entry(config: dict[str, Any], plural: str, name: str, where: Path) -> dict[str, Any]:
    singular = _ENTRIES[plural][0]
    entries = {(entry or {}).get("name") or "": entry for entry in config.get(plural) or []}
    if not name or name not in entries:
        raise InputError(f"kubeconfig {where}: no {singular} '{name}' in {plural}{suggest_similar_name(name, entries)}")
    return (entries[name] or {}).get(singular) or {}


def _check_fields(holder: Any, fields: dict[str, _Type], where: str, known_only: bool = False) -> None:
    """Check the types of the fields of an entry, and that it has no other ones. Raises InputError without the value."""
    if not isinstance(holder, dict):
        raise InputError(f"{where}: it is not a mapping")
    for key, value in holder.items():
        if key not in fields:
            if known_only:
                raise InputError(f"{where}: unknown field '{key}'{suggest_similar_name(key, fields)}")
        elif value is not None and not fields[key][1](value):
            raise InputError(f"{where}: {key} {fields[key][0]}")


def _check_exec_types(entry: dict[str, Any], where: str) -> None:
    _check_fields(entry, _EXEC, where)
    for variable in entry.get("env") or []:
        _check_fields(variable or {}, _VARIABLE, f"{where}, env")


def _check_pairs(cluster: dict[str, Any], user: dict[str, Any], source: str) -> None:
    """Check that no file is given twice, and that what belongs together is there."""
    for holder, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        if holder.get(key) and holder.get(f"{key}-data"):
            raise InputError(f"{source}: it has both {key} and {key}-data: leave one of them out")
    certificate = user.get("client-certificate") or user.get("client-certificate-data")
    if not certificate and (user.get("client-key") or user.get("client-key-data")):
        raise InputError(f"{source}: it has client-key but no client-certificate")
    authority = cluster.get("certificate-authority") or cluster.get("certificate-authority-data")
    if authority and cluster.get("insecure-skip-tls-verify"):
        raise InputError(f"{source}: insecure-skip-tls-verify contradicts certificate-authority: leave one of them out")


def _check_methods(user: dict[str, Any], source: str) -> None:
    """Check that the user has one way to authenticate, and impersonates another user completely."""
    password = user.get("username") or user.get("password")
    token = next((key for key in ("token", "tokenFile") if user.get(key)), None)
    if password and token:
        raise InputError(f"{source}: its user has both {token} and username or password: leave one of them out")
    if user.get("password") and not user.get("username"):
        raise InputError(f"{source}: its user has a password but no username")
    if user.get("exec") and user.get("auth-provider"):
        raise InputError(f"{source}: its user has both exec and auth-provider: leave one of them out")
    partial = next((key for key in ("as-uid", "as-groups", "as-user-extra") if user.get(key)), None)
    if partial and not user.get("as"):
        raise InputError(f"{source}: its user has {partial} without as, the user to impersonate")
    for key in ("token", "username", "password", "as", "as-uid"):
        if _CONTROL.search(user.get(key) or ""):
            raise InputError(f"{source}: {key} has a control character, which no header can hold")
    extra = user.get("as-user-extra") or {}
    for text in (*(user.get("as-groups") or ()), *(item for items in extra.values() for item in items or ())):
        if _CONTROL.search(text or ""):
            raise InputError(f"{source}: as-groups or as-user-extra has a control character, which no header can hold")


def impersonation_headers(user: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the headers by which a user acts as another one; empty without ``as``."""
    if not user.get("as"):
        return ()
    headers = [("Impersonate-User", user["as"])]
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", user["as-uid"]))
    headers += [("Impersonate-Group", group or "") for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{_header_name(key)}", value or "") for value in values or ()]
    return tuple(headers)


def _header_name(key: str) -> str:
    """Return a key of extra information in the characters of a header's name, the others as %XX."""
    legal = b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "".join(chr(byte) if byte in legal else f"%{byte:02x}" for byte in key.encode())


#: Fields by which an entry names a program or a file.
_OF_THIS_MACHINE = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority")
#: Maximum size of a file with a token, a certificate or a key, in bytes.
MOST_BYTES = 2**20


def run_directory_of(where: Path) -> Path | None:
    """Return the run directory in which a kubeconfig is; None if it is in none."""
    return next(filter(_is_run_directory, where.resolve().parents), None)


def _is_run_directory(folder: Path) -> bool:
    """Return whether a folder has what a run, or one of its role calls, has written."""
    return (folder / "request.yml").is_file() or any(folder.glob("[0-9]*__*/arguments.yml"))


def refuse_program_of_run_directory(where: Path, source: str, way: str) -> None:
    """Raise InputError for a kubeconfig in a run directory, whose entry ``way`` names a program."""
    run = run_directory_of(where)
    if run is not None:
        raise InputError(
            f"{source}: '{way}' names a program, and the file is in the run directory {run}, of which nothing is "
            "executed: name the kubeconfig of the cluster by -e cluster_kubeconfig"
        )


def write_received_kubeconfig(path: Path, text: str, source: str) -> None:
    """Replace a file by the kubeconfig that a server has sent. source: of the kubeconfig, in messages.

    Raises AccessError for one that names programs or files of this machine; the file stays as it is.
    """
    received = path.with_name(f".{path.name}.received")
    try:
        files.replace_text(received, text, 0o600)
        _refuse_programs_and_files(received, source)
        received.replace(path)
    except InputError as error:
        raise AccessError(str(error)) from error
    finally:
        received.unlink(missing_ok=True)


def _refuse_programs_and_files(where: Path, source: str) -> None:
    document = read_kubeconfig_document(where)
    for plural, (singular, _fields) in _ENTRIES.items():
        for entry in document.get(plural) or []:
            held = (entry or {}).get(singular) or {}
            if named := next((key for key in _OF_THIS_MACHINE if held.get(key)), None):
                raise InputError(f"{source}: '{named}' names a program or a file of this machine, which none may name")


def find_named_file(where: Path, key: str, name: str, source: str) -> Path:
    """Return the path of a file that entry ``key`` of a kubeconfig names, relative to the kubeconfig.

    Raises InputError for a kubeconfig in a run directory if the file is outside of it.
    """
    path = where.parent / name
    run = run_directory_of(where)
    if run is not None and not path.resolve().is_relative_to(run):
        raise InputError(
            f"{source}: {key} names {path}, which is outside of the run directory {run} that has the kubeconfig: name "
            "the kubeconfig of the cluster by -e cluster_kubeconfig"
        )
    return path


def read_named_file(path: Path) -> bytes:
    """Return the content of a regular file of at most 1 MiB. Raises OSError: any other one may have no end."""
    try:
        stream = files.open_regular_file(path)
    except DataError as error:
        raise OSError(errno.EINVAL, "it is not a regular file") from error
    with stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, "it has more than 1 MiB")
    return content
