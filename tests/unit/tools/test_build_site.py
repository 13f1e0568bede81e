"""Pages of the site: their links, and a navigation that has each page."""

from __future__ import annotations

import re

import build_site
import pytest

REPOSITORY = build_site.REPOSITORY


@pytest.mark.parametrize(
    ("folder", "link", "on_the_site"),
    [
        ("docs", "runs.md#phases", "runs.md#phases"),
        ("docs", "README.md", "pages.md"),
        ("docs", "../README.md#quick-start", "index.md#quick-start"),
        ("docs", "settings.md#cluster", "settings/cluster.md"),
        ("docs", "settings.md", "settings/index.md"),
        ("docs", "../roles/storage", f"{REPOSITORY}/tree/main/roles/storage"),
        ("docs", "../galaxy.yml", f"{REPOSITORY}/blob/main/galaxy.yml"),
        ("docs", "#below", "#below"),
        ("docs", "https://example.com/x#y", "https://example.com/x#y"),
        ("", "docs/awx.md", "awx.md"),
        ("", f"{REPOSITORY}/blob/main/docs/uninstall.md#sizes", "uninstall.md#sizes"),
        ("", f"{REPOSITORY}/blob/main/CHANGELOG.rst", "changelog.rst"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site_or_to_the_repository(folder: str, link: str, on_the_site: str) -> None:
    assert build_site.relink(f"see [it]({link}), twice", folder) == f"see [it]({on_the_site}), twice"


def test_code_keeps_what_looks_like_a_link_and_pictures_are_found() -> None:
    text = "```\n[a](b.md)\n```\n![x](images/report-100000.png)"
    assert build_site.relink(text, "docs") == text
    raw = "https://raw.githubusercontent.com/perfscale/seatrial/main/docs/images/report-100000.png"
    assert build_site.relink(f"![x]({raw})", "") == "![x](images/report-100000.png)"


def test_a_link_that_leads_nowhere_ends_it() -> None:
    with pytest.raises(SystemExit, match=r"docs: the link no_page.md leads nowhere"):
        build_site.relink("[it](no_page.md)", "docs")


def test_each_page_is_in_the_navigation_once() -> None:
    pages = [page for _caption, pages in build_site.navigation() for page in pages]
    assert sorted(pages) == sorted({path.stem for path in build_site.DOCS.glob("*.md")} - {"README", "settings"})
    listed = re.findall(r"^([a-z_]+(?:/index)?)$", build_site.toctrees(), re.MULTILINE)
    assert set(pages) < set(listed) and len(listed) == len(set(listed))
