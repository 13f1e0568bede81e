"""The tables of README.md and docs/README.md name everything that there is."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")

PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml") if not path.name.startswith("_"))
ROLES = sorted(path.parent.name for path in (ROOT / "roles").glob("*/tasks"))
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_readme_names_each_playbook(playbook: str) -> None:
    assert f"`{playbook}" in README or f"playbooks/{playbook}" in README


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_links_each_role(role: str) -> None:
    assert f"(roles/{role})" in README


@pytest.mark.parametrize("page", PAGES)
def test_the_index_links_each_page(page: str) -> None:
    assert f"]({page}" in INDEX
