"""The tables of docs/playbooks.md and docs/README.md name everything that there is; README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLES = (ROOT / "docs" / "playbooks.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")

PLACES = ("https://github.com/perfscale/seatrial/blob", "https://raw.githubusercontent.com/perfscale/seatrial")

PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml") if not path.name.startswith("_"))
ROLES = sorted(path.parent.name for path in (ROOT / "roles").glob("*/tasks"))
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_page_of_playbooks_names_each(playbook: str) -> None:
    assert f"| `{playbook}" in TABLES


@pytest.mark.parametrize("role", ROLES)
def test_the_page_of_playbooks_links_each_role(role: str) -> None:
    assert f"(../roles/{role})" in TABLES


def test_the_readme_is_read_in_five_minutes_and_has_the_sections_of_certified_content() -> None:
    assert len(README.split()) <= 900
    sections = re.findall(r"^## (.*)$", README, re.MULTILINE)
    wanted = {"Description", "Requirements", "Installation", "Use cases", "Testing", "Contributing", "Support"}
    assert wanted | {"Release notes", "Related information", "License information"} <= set(sections)


def test_links_of_the_readme_are_whole_and_lead_to_files() -> None:
    """Automation Hub and Galaxy show the page without the repository."""
    links = re.findall(r"\]\(([^)]*)\)", README)
    ours = [re.fullmatch(rf"{re.escape(where)}/main/([^#]*)(?:#(.*))?", link) for link in links for where in PLACES]
    assert all(link.startswith("https://") for link in links)
    found = [link for link in ours if link]
    assert len(found) > 20 and [link[1] for link in found if not (ROOT / link[1]).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_index_links_each_page(page: str) -> None:
    assert f"]({page}" in INDEX
