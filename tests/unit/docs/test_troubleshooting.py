# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md quotes messages that exist; links between the pages of docs lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
#: The first column of a table, except messages of Ansible.
MESSAGES = [
    message
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for message in re.findall(r"`([^`]+)`", line.split(" | ")[0])
]


@pytest.fixture(scope="module")
def sources() -> str:
    """All messages of the product, each on one line: literals that Python or YAML joins are joined."""
    files = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("roles/*/tasks/**/*.yml"), *ROOT.glob("tools/*")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file())
    return re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*f?"', "", text))


def test_the_page_has_many_messages() -> None:
    assert len(MESSAGES) > 40


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_exists(message: str, sources: str) -> None:
    missing = [part for part in re.split("…", message) if part.strip(" ',()") and part.strip() not in sources]
    assert not missing


def _anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target, _hash, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if re.match(r"\w+:", link):
            continue
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
            broken.append(link)
    assert not broken


def test_the_index_names_each_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [
        one.name for one in (ROOT / "docs").glob("*.md") if one.name != "README.md" and f"({one.name}" not in index
    ] == []


def test_each_picture_is_on_a_page() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert not [path.name for path in (ROOT / "docs" / "images").iterdir() if f"images/{path.name})" not in shown]
