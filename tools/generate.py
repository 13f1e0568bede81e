"""Generate docs/settings.md and the table of packages, or (--check) say what is out of date.

With --schemas, write docs/schemas/*.json.

The settings come from the argument_specs of all roles, read by the same catalogue that a run uses. The schemas come
from plugins/module_utils/_base/schemas. Runs with the Python of the virtual environment.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml
from common import ROOT, find_collection, say, stop

find_collection()

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas import schema_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue

DOCS = ROOT / "docs"

HEAD = """# Settings

Every setting is a variable of the role whose name is its prefix. Later entries win: its default,
an inventory, presets, a cluster profile, `overrides`, `-e` ([details](presets.md#precedence)).
`.venv/bin/ansible-playbook playbooks/<project>.yml --tags settings` shows what a run would use.
A number without bounds of its own may be 0 to 1,000,000,000.
This page is generated from `roles/*/meta/argument_specs.yml` by `make docs`.
"""


#: Ansible's markup. Backslashes escape parentheses in the semantic ones only (V, O, E, RV, P).
_MARKUP = re.compile(r"\b(?:([BCILMU])\(([^)]*)\)|(V|O|E|RV|P)\(((?:\\.|[^\\)])*)\))")


def _rendered(markup: re.Match[str]) -> str:
    """One markup element of Ansible as Markdown."""
    kind, text = markup[1] or markup[3], markup[2] if markup[1] else re.sub(r"\\(.)", r"\1", markup[4])
    if kind == "L":
        label, _, url = text.partition(",")
        return f"[{label.strip()}]({url.strip()})"
    if kind in ("O", "RV"):  # namespace.collection.plugin#type:[entry point:]option
        plugin, _, option = text.rpartition("#")
        name = f"`{option.rpartition(':')[2] if plugin else option}`"
        return f"{name} of `{plugin}`" if plugin and "#role:" not in text else name
    if kind == "P":
        text = text.partition("#")[0]
    return {"B": f"**{text}**", "I": f"*{text}*", "U": f"<{text}>"}.get(kind, f"`{text}`")


def as_markdown(text: str) -> str:
    """Ansible's markup, such as C(code), V(value) and O(option), as Markdown."""
    return _MARKUP.sub(_rendered, text)


def as_text(description: Any) -> str:
    """A description, which may be a list of sentences, as one table cell."""
    parts = description if isinstance(description, list) else [description or ""]
    return as_markdown(" ".join(" ".join(str(part).split()) for part in parts)).replace("|", "\\|")


def as_default(setting: settings_catalogue.Setting) -> str:
    """The default on one line of YAML, as a preset would have it."""
    if setting.secret:
        return "*secret*"
    value = setting.default
    if value is None:
        return ""
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def as_type(setting: settings_catalogue.Setting) -> str:
    """Type, elements, allowed values, and the bounds of a number if it has its own."""
    text = setting.type
    if text in ("int", "float") and setting.declared_bounds:
        text += f", {setting.bounds[0]:,} to {setting.bounds[1]:,}"
    if setting.spec.get("elements"):
        text += f" of {setting.spec['elements']}"
    choices = setting.spec.get("choices")
    if choices:
        text += ": " + ", ".join(f"`{choice}`" for choice in choices)
    return text


def settings_by_role() -> dict[str, list[settings_catalogue.Setting]]:
    """Role → its settings, both sorted by name."""
    by_role: dict[str, list[settings_catalogue.Setting]] = {}
    for setting in settings_catalogue.load_catalogue(ROOT).settings.values():
        by_role.setdefault(setting.role, []).append(setting)
    return {role: sorted(by_role[role], key=lambda setting: setting.name) for role in sorted(by_role)}


def settings_table(settings: list[settings_catalogue.Setting]) -> list[str]:
    """The lines of a table of settings."""
    lines = ["| setting | type | default | description |", "|---|---|---|---|"]
    for setting in settings:
        description = as_text(setting.spec.get("description"))
        cells = [f"`{setting.name}`", as_type(setting), as_default(setting), description]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def settings_page() -> str:
    """docs/settings.md: one table for each role, below a list of the roles."""
    roles = settings_by_role()
    lines = [HEAD, "Roles: " + " · ".join(f"[{role}](#{role})" for role in roles), ""]
    for role, settings in roles.items():
        lines += [f"## {role}", "", *settings_table(settings)]
    return "\n".join(lines).rstrip() + "\n"


PACKAGES_BEGIN, PACKAGES_END = "<!-- packages: written by make docs from packages.yml -->", "<!-- packages: end -->"


def packages_table() -> str:
    """The packages of docs/packages.yml as Markdown: which package may import which."""
    table = yaml.safe_load((DOCS / "packages.yml").read_text(encoding="utf-8"))
    lines = ["| package or folder | is | imports, beside `_base` |", "|---|---|---|"]
    for name, package in {**table["packages"], **table["plugins"]}.items():
        uses = "every package" if package["uses"] == "all" else ", ".join(f"`{used}`" for used in package["uses"])
        lines.append(f"| `{name}` | {package['does']} | {uses} |")
        lines += [f"| `{name}/{part}` | {does} | |" for part, does in package.get("parts", {}).items()]
    return "\n".join(lines)


def architecture_page() -> str:
    """docs/architecture.md with an up-to-date table of packages."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(PACKAGES_BEGIN)
    _old, end, after = rest.partition(PACKAGES_END)
    if not begin or not end:
        stop(f"docs/architecture.md does not contain '{PACKAGES_BEGIN}' or '{PACKAGES_END}'")
    return f"{before}{begin}\n\n{packages_table()}\n\n{end}{after}"


def pages() -> dict[Path, str]:
    """Path → content of everything that is generated."""
    return {DOCS / "settings.md": settings_page(), DOCS / "architecture.md": architecture_page()}


def published_schemas() -> dict[Path, str]:
    """Path → content of the schemas that the built collection contains; they are not in the repository."""
    return {
        DOCS / "schemas" / f"{name.replace('/', '-')}.json": json.dumps(schema_catalogue.schema_by_name(name), indent=2)
        + "\n"
        for name in schema_catalogue.PUBLISHED
    }


def write_schemas() -> None:
    """Write docs/schemas, and remove what is not published."""
    made = published_schemas()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in set((DOCS / "schemas").glob("*.json")) - set(made):
        path.unlink()


def out_of_date() -> list[str]:
    """Names of generated files that differ from those in the repository."""
    made = pages()
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return sorted(str(path.relative_to(ROOT)) for path in wrong)


def main(arguments: list[str]) -> None:
    """Write the files that are out of date; with --check, fail and name them."""
    wrong = out_of_date()
    if "--check" in arguments:
        if wrong:
            stop(f"out of date: {', '.join(wrong)}; run `make docs`")
        return
    write_schemas()
    if "--schemas" in arguments:
        return
    made = pages()
    for name in wrong:
        (ROOT / name).write_text(made[ROOT / name], encoding="utf-8")
        say(f"{name}: written")


if __name__ == "__main__":
    main(sys.argv[1:])
