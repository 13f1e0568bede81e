# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the presets of a TOPSAIL configuration as a file of presets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    nearest_file,
)

from . import configuration, training_presets
from .training_presets import ImportedPreset

VARIABLE = "fine_tuning_presets_topsail_import"


def read_topsail_configuration(path: Path) -> Any:
    """Return a configuration. Raises InputError for a file that is missing or is no YAML."""
    if not path.is_file():
        raise InputError(f"src: there is no {path}{nearest_file(path)}")
    try:
        return files.read_yaml(path)
    except DataError as error:
        raise InputError(str(error)) from error


def translate_wanted_presets(config: Any, wanted: Sequence[str]) -> tuple[list[ImportedPreset], dict[str, str]]:
    """Return the imported presets, and why others were not imported.

    wanted: names, or several that are applied together (``a b``); empty means every preset alone. Raises InputError for
    a wanted one that cannot be imported.
    """
    made: list[ImportedPreset] = []
    failed: dict[str, str] = {}
    for names in wanted or configuration.list_preset_names(config):
        try:
            made.append(training_presets.translate_presets(config, names))
        except InputError as error:
            if wanted:
                raise InputError(f"{names}: {error}") from error
            failed[names] = str(error)
    return made, failed


def render_presets_file(made: Sequence[ImportedPreset], failed: dict[str, str]) -> str:
    """Return the file of presets; what was not translated is a comment above each preset."""
    import yaml

    lines = ["---", "# Presets of a configuration of TOPSAIL, written by playbooks/import_topsail.yml."]
    lines += [f"# Not imported: {name}: {why}" for name, why in failed.items()]
    lines += [f"{VARIABLE}:" if made else f"{VARIABLE}: {{}}"]
    for preset in made:
        lines += [f"  # Not translated: {' '.join(why.split())}" for why in preset.unmapped]
        body = yaml.safe_dump(
            {preset.name: {"description": preset.description, **preset.settings}},
            sort_keys=False,
            width=4096,
            allow_unicode=True,
        )
        lines += [f"  {line}" for line in body.splitlines()]
    return "\n".join(lines) + "\n"


def write_presets_file(source: Path, target: Path, wanted: Sequence[str], check_mode: bool) -> dict[str, Any]:
    """Write the file ``target`` from the configuration ``source``; return the result of module topsail_presets."""
    made, failed = translate_wanted_presets(read_topsail_configuration(source), wanted)
    content = render_presets_file(made, failed)
    before = target.read_text(encoding="utf-8") if target.exists() else None
    changed = before != content
    if changed and not target.parent.is_dir():
        raise InputError(f"dest: there is no folder {target.parent}")
    if changed and not check_mode:
        files.replace_text(target, content)
    unmapped = {preset.name: preset.unmapped for preset in made if preset.unmapped}
    diff = {"before_header": str(target), "before": before or "", "after_header": str(target), "after": content}
    presets = [preset.name for preset in made]
    return {"changed": changed, "presets": presets, "unmapped": unmapped, "refused": failed, "diff": diff}
