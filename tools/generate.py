"""Generate docs/settings.md and docs/schemas/*.json, or (--check) say which of them are out of date.

The settings come from every role's argument_specs through the same catalogue that a run uses, the schemas from
plugins/module_utils/_schemas. Runs with the virtual environment's Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import ROOT, say, stop

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.perfscale.seatrial.plugins.module_utils import _schemas
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import catalogue

DOCS = ROOT / "docs"

HEAD = """# Settings

Every setting is a variable of the role whose name it begins with. A preset, an inventory or `-e` changes it
(in this order, the later wins); `ansible-playbook playbooks/<project>.yml --tags settings` shows what a run would use.
This page is generated from `roles/*/meta/argument_specs.yml` by `make docs`.
"""


def as_text(description: Any) -> str:
    """A description, which may be a list of sentences, as one table cell."""
    parts = description if isinstance(description, list) else [description or ""]
    return " ".join(" ".join(str(part).split()) for part in parts).replace("|", "\\|")


def as_default(setting: catalogue.Setting) -> str:
    """The default as YAML in one line, as one would write it in a preset."""
    if setting.secret:
        return "*secret*"
    value = setting.default
    if value is None:
        return ""
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def as_type(setting: catalogue.Setting) -> str:
    """Type, elements and allowed values."""
    text = setting.type
    if setting.spec.get("elements"):
        text += f" of {setting.spec['elements']}"
    choices = setting.spec.get("choices")
    if choices:
        text += ": " + ", ".join(f"`{choice}`" for choice in choices)
    return text


def settings_page() -> str:
    """docs/settings.md: one table a role."""
    known = catalogue.load(ROOT)
    by_role: dict[str, list[catalogue.Setting]] = {}
    for setting in known.settings.values():
        by_role.setdefault(setting.role, []).append(setting)
    lines = [HEAD]
    for role in sorted(by_role):
        lines += [f"## {role}", "", "| setting | type | default | what it is |", "|---|---|---|---|"]
        for setting in sorted(by_role[role], key=lambda one: one.name):
            cells = [
                f"`{setting.name}`",
                as_type(setting),
                as_default(setting),
                as_text(setting.spec.get("description")),
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[Path, str]:
    """Path → content of everything that is generated."""
    made = {DOCS / "settings.md": settings_page()}
    for name in _schemas.SCHEMAS:
        path = DOCS / "schemas" / f"{name.replace('/', '-')}.json"
        made[path] = json.dumps(_schemas.schema(name), indent=2) + "\n"
    return made


def out_of_date() -> list[str]:
    """Names of generated files that differ from what is in the repository, or stand there without a source."""
    made = pages()
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    wrong += [path for path in (DOCS / "schemas").glob("*.json") if path not in made]
    return sorted(str(path.relative_to(ROOT)) for path in wrong)


def main(arguments: list[str]) -> None:
    """Write what is out of date, or with --check fail naming it."""
    wrong = out_of_date()
    if "--check" in arguments:
        if wrong:
            stop(f"out of date: {', '.join(wrong)}; run `make docs`")
        return
    made = pages()
    for name in wrong:
        path = ROOT / name
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()
        say(f"{name}: {'written' if path in made else 'removed'}")


if __name__ == "__main__":
    main(sys.argv[1:])
