# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values are secrets by their names: the one rule for everything that writes settings, arguments or objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: What a secret is replaced with in a text.
MASK = "<secret>"

#: Words of a name that name a secret, alone or as two words that follow each other.
_SECRET_WORDS = frozenset(
    {
        "token",
        "password",
        "passwd",
        "pw",
        "passphrase",
        "passcode",
        "secret",
        "credential",
        "credentials",
        "apikey",
        "pat",
    }
)
#: The second ones are those of Ansible's connections, such as ansible_ssh_pass: "pass" alone is also a verdict.
_SECRET_PAIRS = frozenset(
    {
        *((word, "key") for word in ("api", "access", "secret", "private", "auth", "signing", "account")),
        *((word, "pass") for word in ("become", "ssh", "su", "sudo", "enable", "user", "db", "admin")),
    }
)
#: Tokens of a text that a model reads.
_MODEL_TOKENS = frozenset({"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image", "audio", "end", "start", "stop"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT = re.compile(r"[^a-z0-9]+")
#: Values that say nothing, whatever their name is.
_PLAIN = re.compile(r"(?:true|false|yes|no|on|off|null|none|[0-9]{1,5}(?:\.[0-9]{1,5})?)?", re.IGNORECASE)
#: name= and name: in a text, and the value behind it, which ends where such values end.
#: A colour of a terminal may stand right before the name, and backslashes before quotes: JSON in a text in JSON.
_ASSIGNED_NAME = re.compile(
    r"(?<![\w.-])(?:\x1b?\[[0-9;]{0,12}[A-Za-z])?(?P<name>[\w.-]{2,80})\\{0,7}[\"']?(?:\s{0,3}[=:]\s{0,3}|=)\\{0,7}[\"']?"
)
#: What a text has that has such a name: its last word.
_LAST_WORDS = "|".join(sorted({*_SECRET_WORDS, *(last for _first, last in _SECRET_PAIRS)}))
_MAY_BE_ASSIGNED = re.compile(rf"(?:{_LAST_WORDS})[_.-]{{0,80}}\\{{0,7}}[\"']?\s{{0,3}}[=:]", re.IGNORECASE)
_ASSIGNED_VALUE = re.compile(r"[^\s\\\"',;&<>{}()\[\]][^\s\"',;&<>{}()\[\]]{2,4095}[^\s\\\"',;&<>{}()\[\]]")


def is_secret_name(name: object, anywhere: bool = False) -> bool:
    """Return whether what has this name is a secret: MY_TOKEN, dbPassword, a.secret_key, but not max_tokens.

    anywhere: the word may stand in the middle of the name too, as in the names of environment variables.
    """
    words = [word for word in _SPLIT.split(_CAMEL.sub("_", str(name)).lower()) if word]
    places = range(len(words))
    return any(_is_secret_at(words, at) for at in (places if anywhere else places[-1:]))


def _is_secret_at(words: list[str], at: int) -> bool:
    before = words[at - 1] if at else ""
    if words[at] == "token" and before in _MODEL_TOKENS:
        return False
    return words[at] in _SECRET_WORDS or (before, words[at]) in _SECRET_PAIRS


def is_secret_entry(name: object, value: object, anywhere: bool = False) -> bool:
    """Return whether a value is a secret by its name. MASK is one that was masked already."""
    return isinstance(value, str) and _PLAIN.fullmatch(value) is None and is_secret_name(name, anywhere)


def secret_entries(value: Any, path: str = "", anywhere: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (path, value) of the entries of dictionaries, at any depth, that are secrets by their names."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            inside = f"{path}.{key}" if path else str(key)
            if is_secret_entry(key, entry, anywhere):
                yield inside, str(entry)
            else:
                yield from secret_entries(entry, inside, anywhere)
    elif isinstance(value, (list, tuple)):
        for number, entry in enumerate(value):
            yield from secret_entries(entry, f"{path}[{number}]", anywhere)


def mask_secret_entries(
    value: Any,
    is_secret: Callable[[Any, Any], bool] = is_secret_entry,
    mask_text: Callable[[str], str] = lambda text: text,
) -> Any:
    """Return plain data in which the entries that are secrets have the value MASK.

    is_secret: called with key and value. mask_text: applied to all other texts.
    """
    if isinstance(value, Mapping):
        return {
            key: MASK if is_secret(key, entry) else mask_secret_entries(entry, is_secret, mask_text)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [mask_secret_entries(entry, is_secret, mask_text) for entry in value]
    return mask_text(value) if isinstance(value, str) else value


#: An option of a command with its value, which is no reference to a variable, a template, or what was masked.
_OPTION = re.compile(
    r"(?<![\w-])--?(?P<name>[\w.-]{2,80})(?:=|[ \t]{1,8})[\"']?(?![-$<{\"'])(?P<value>[^\s\"']{4,4096})"
)
_ONLY_OPTION = re.compile(r"--?([\w.-]{2,80})")


def mask_command_options(value: Any) -> Any:
    """Return a command, a text or a list of words, with the values of ``--api-key=…`` and ``--api-key …`` masked."""
    if isinstance(value, str):
        return _OPTION.sub(_masked_option, value) if "-" in value else value
    if not isinstance(value, (list, tuple)):
        return value
    words = [mask_command_options(word) if isinstance(word, str) else word for word in value]
    for at, before in enumerate(value[:-1], 1):
        option = _ONLY_OPTION.fullmatch(before) if isinstance(before, str) else None
        if option and is_secret_entry(option[1], words[at]) and not words[at].startswith(("-", "$", "{", "<")):
            words[at] = MASK
    return words


def _masked_option(match: re.Match[str]) -> str:
    secret = is_secret_entry(match["name"], match["value"])
    return match.group().replace(match["value"], MASK) if secret else match.group()


def mask_assignments(text: str) -> str:
    """Return a text with the values of ``token=…``, ``password: …`` and the like masked."""
    if not _MAY_BE_ASSIGNED.search(text):  # faster for the logs of pods
        return text
    parts, end = [], 0
    for name in _ASSIGNED_NAME.finditer(text):
        if name.start() >= end and is_secret_name(name["name"]):
            value = _ASSIGNED_VALUE.match(text, name.end())
            if value and is_secret_entry(name["name"], value.group()):
                parts += [text[end : name.end()], MASK]
                end = value.end()
    return "".join([*parts, text[end:]])
