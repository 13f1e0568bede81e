# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the presets of a TOPSAIL configuration as a file of presets.

No text of the configuration becomes a template: one with braces is written as ``!unsafe``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_nearest_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import looks_like_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_count, format_list

from . import topsail_configuration, translate_training_presets
from .topsail_key_translation import format_key_value, text_without_secrets
from .translate_training_presets import ImportedPreset

VARIABLE = "fine_tuning_presets_topsail_import"
HEADER = "# Presets of a configuration of TOPSAIL, written by playbooks/import_topsail.yml."
_LARGEST = 2**20


@dataclass
class ImportResult:
    """The translation of one configuration.

    refused: preset -> why it was not imported. base: values outside of presets that were not carried.
    """

    presets: list[ImportedPreset] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    base: list[str] = field(default_factory=list)

    def report(self) -> list[str]:
        """Return what was imported and what was not, a line for each reason."""
        preset_names = ", ".join(_name_without_prefix(preset) for preset in self.presets)
        lines = [
            f"{format_count(len(self.presets), 'preset')} imported, with names that begin with"
            f" {translate_training_presets.PREFIX}: {preset_names}"
        ]
        lines += [f"not imported: {reason}" for reason in self.reasons()]
        notes: dict[str, list[str]] = {}
        for preset in self.presets:
            for why in preset.unmapped:
                notes.setdefault(why, []).append(_name_without_prefix(preset))
        for why, names in notes.items():
            lines.append(f"not translated: {why} (in {format_list(names, 3)})")
        return [_one_line(line) for line in lines]

    def reasons(self) -> list[str]:
        """Return each reason why presets were not imported, after their names."""
        names: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            names.setdefault(why, []).append(name)
        return [f"{', '.join(of_reason)}: {why}" for why, of_reason in names.items()]


def read_topsail_configuration(path: Path) -> Any:
    """Return the configuration of a file. Raises InputError for a file that is missing, or is none."""
    if "http:/" in str(path) or "https:/" in str(path):
        raise InputError(f"src: {path} is an address; download the file and name it")
    if path.is_dir():
        raise InputError(f"src: {path} is a folder; name the file config.yaml in it")
    if not path.is_file():
        raise InputError(f"src: there is no {path}{suggest_nearest_file(path)}")
    if path.stat().st_size > _LARGEST:
        raise InputError(f"src: {path} has more than 1 MiB, and a configuration of TOPSAIL has about 30 KiB")
    try:
        config = files.read_yaml(path)
        topsail_configuration.check_configuration(config)
    except (DataError, InputError) as error:
        raise InputError(f"src: {path}: {str(error).removeprefix(f'{path}: ')}") from error
    except OSError as error:
        raise InputError(f"src: {path} cannot be read: {error.strerror}") from error
    return config


def translate_wanted_presets(config: Any, wanted: Sequence[str]) -> ImportResult:
    """Return the imported presets, and why others were not imported.

    wanted: names, or several that are applied together (``a b``); empty means every preset alone. Raises InputError for
    a wanted one that cannot be imported, and if there is none that can.
    """
    made = ImportResult()
    every = topsail_configuration.list_preset_names(config)
    for names in [request.split() for request in wanted] or [[name] for name in every]:
        try:
            preset = translate_training_presets.translate_presets(config, names)
            if preset.name in [other.name for other in made.presets]:
                raise InputError(f"another preset is imported as {preset.name}")
            made.presets.append(preset)
        except InputError as error:
            if wanted:
                raise InputError(f"{' '.join(names)}: {error}") from error
            made.refused[str(names[0])] = str(error)
    if not made.presets:
        raise InputError(
            _one_line(f"none of its presets can be imported: {'; '.join(made.reasons()) or 'it has none'}")
        )
    read = set[str]().union(*(preset.read for preset in made.presets))
    made.base = [
        format_key_value(key, value)
        for section, entries in config.items()
        if section != topsail_configuration.PRESETS
        for key, value in topsail_configuration.leaf_values(entries, str(section))
        if value is not None and not translate_training_presets.is_translation_covered(key, read)
    ]
    for key in (topsail_configuration.TO_APPLY, topsail_configuration.OVERRIDES):
        if value := config[topsail_configuration.PRESETS].get(key.rpartition(".")[2]):
            text = text_without_secrets(key, value, 1_000)
            made.base.insert(0, f"{key} = {text}: applied first in every preset here, as in every run of TOPSAIL")
    return made


def render_presets_file(made: ImportResult) -> str:
    """Return the file of presets; what was not translated is a comment, above each preset or at the top.

    The second line has the checksum of what follows, by which a later import knows that nobody has edited the file.
    """
    lines = [f"# Not imported: {_one_line(reason)}" for reason in made.reasons()]
    lines += ["# Not translated, of the configuration without its presets:"] if made.base else []
    lines += [f"#   {_one_line(why)}" for why in made.base]
    lines += [f"{VARIABLE}:"]
    for preset in made.presets:
        lines += [f"  # Not translated: {_one_line(why)}" for why in preset.unmapped]
        body = _dump_with_unsafe_texts({preset.name: {"description": preset.description, **preset.settings}})
        lines += [f"  {line}" for line in body.splitlines()]
    content = "\n".join(lines) + "\n"
    return f"---\n{HEADER}\n# sha256 of the following lines: {_sha256(content)}\n{content}"


def write_presets_file(source: Path, target: Path, wanted: Sequence[str], check_mode: bool) -> dict[str, Any]:
    """Write the file ``target`` from the configuration ``source``; return the result of module topsail_presets."""
    made = translate_wanted_presets(read_topsail_configuration(source), wanted)
    content = render_presets_file(made)
    before = _read_earlier_import(target)
    if before != content and not check_mode:
        try:
            files.replace_text(target, content)
        except OSError as error:
            raise InputError(f"dest: {target} cannot be written: {error.strerror}") from error
    report = made.report()
    if check_mode:
        report += [_one_line(f"not translated: {why} (of the configuration without its presets)") for why in made.base]
    elif made.base:
        report.append(
            f"not translated: {format_count(len(made.base), 'value')} of the configuration without its presets,"
            f" listed in {target}"
        )
    return {
        "changed": before != content,
        "presets": [preset.name for preset in made.presets],
        "unmapped": {preset.name: preset.unmapped for preset in made.presets if preset.unmapped},
        "base": made.base,
        "refused": made.refused,
        "report": report,
        "diff": {"before_header": str(target), "before": before, "after_header": str(target), "after": content},
    }


def _read_earlier_import(target: Path) -> str:
    """Return the content of an earlier import, an empty text without one. Raises InputError for any other file."""
    if target.suffix not in (".yml", ".yaml"):
        raise InputError(f"dest: Ansible reads only files whose names end with .yml or .yaml, and not {target}")
    if not target.parent.is_dir():
        raise InputError(f"dest: there is no folder {target.parent}")
    if not target.exists() and not target.is_symlink():
        return ""
    text = target.read_text(encoding="utf-8", errors="replace") if target.is_file() else ""
    parts = text.split("\n", 3)
    if len(parts) < 4 or parts[1] != HEADER or not parts[2].endswith(f" {_sha256(parts[3])}"):
        raise InputError(f"dest: {target} was not written by an import, or was edited since; move it, or name another")
    return text


def _dump_with_unsafe_texts(value: Any) -> str:
    """Return ``value`` as YAML in which Ansible renders no text."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A separate class: the representer below must not change other dumpers."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        if looks_like_template(text):
            return dumper.represent_scalar("!unsafe", text, style='"')
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)

    Dumper.add_representer(str, represent)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, width=4096, allow_unicode=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _one_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _name_without_prefix(preset: ImportedPreset) -> str:
    return preset.name.removeprefix(translate_training_presets.PREFIX)
