"""The report of each compared run links to the comparison, and the comparison to each report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import compare_runs, comparison_page
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import page_content, write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from run_directory import World, write_run

TEMPLATES = Path(__file__).parents[6] / "roles" / "results" / "templates"
COMPARE = TEMPLATES / "compare.html.j2"


def links_of(path: Path) -> list[Path]:
    """Return the existing pages that a page links to."""
    found = [path.parent / one for one in re.findall(r'href="([^"#]+\.html)"', path.read_text(encoding="utf-8"))]
    assert all(one.is_file() for one in found)
    return [one.resolve() for one in found]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """An empty report, rendered from its template."""
    folder = tmp_path / "run" / "report"
    folder.mkdir(parents=True)
    fragment = write_report.render_template(TEMPLATES / comparison_page.FRAGMENT, {"comparisons": []})
    (folder / "index.html").write_text(f"<p>before</p>\n{fragment}\n<p>after</p>", encoding="utf-8")
    (tmp_path / "compare").mkdir()
    (tmp_path / "compare" / "index.html").write_text("<p>", encoding="utf-8")
    return tmp_path


def test_compared_runs_and_their_comparison_link_to_each_other(tmp_path: Path, definitions: str) -> None:
    tops = [write_run(tmp_path / name, [(World(count=3, training=False), {})]) for name in ("a", "b")]
    for top in tops:
        write_timeline(str(top))
        write_verdict(str(top), 0.5)
        (top / "report").mkdir()
        shown = write_report.render_template(TEMPLATES / comparison_page.FRAGMENT, {"comparisons": []})
        (top / "report" / "index.html").write_text(f"{shown}<p>the rest</p>", encoding="utf-8")
    result = compare_runs.write_run_comparison(
        [str(top) for top in tops], str(tmp_path / "out"), [definitions], str(COMPARE)
    )
    target = Path(result["path"])
    assert links_of(target) == [(top / "report" / "index.html").resolve() for top in tops]
    for top in tops:
        assert links_of(top / "report" / "index.html") == [target.resolve()]
        assert "<p>the rest</p>" in (top / "report" / "index.html").read_text(encoding="utf-8")
        files.validate_schema_if_enabled("comparisons/1", files.read_json(top / "report" / "comparisons.json"))


def test_a_comparison_that_is_made_again_is_linked_once(made: Path) -> None:
    target = made / "compare" / "index.html"
    for _ in range(2):
        assert (
            comparison_page.link_from_run_reports(
                [made / "run"], target, "B against A", "2026-11-21T00:00:00Z", COMPARE
            )
            == []
        )
    index = made / "run" / "report" / "index.html"
    assert links_of(index) == [target.resolve()]
    text = index.read_text(encoding="utf-8")
    assert text.startswith("<p>before</p>") and text.endswith("<p>after</p>") and text.count(comparison_page.BEGIN) == 1


def test_a_report_that_is_made_again_keeps_links_to_what_is_still_there(made: Path) -> None:
    target = made / "compare" / "index.html"
    comparison_page.link_from_run_reports([made / "run"], target, "B against A", "2026-11-21T00:00:00Z", COMPARE)
    folder = made / "run" / "report"
    assert [one["path"] for one in page_content.find_existing_comparisons(folder)] == ["../../compare/index.html"]
    target.unlink()
    assert page_content.find_existing_comparisons(folder) == []


def test_a_page_of_another_template_stays_as_it_is(made: Path) -> None:
    index = made / "run" / "report" / "index.html"
    index.write_text("<p>mine</p>", encoding="utf-8")
    assert (
        comparison_page.link_from_run_reports(
            [made / "run"], made / "compare" / "index.html", "x", "2026-11-21T00:00:00Z", COMPARE
        )
        == []
    )
    assert index.read_text(encoding="utf-8") == "<p>mine</p>"


def test_a_run_without_a_report_gets_nothing(tmp_path: Path) -> None:
    assert (
        comparison_page.link_from_run_reports([tmp_path], tmp_path / "index.html", "x", "2026-11-21T00:00:00Z", COMPARE)
        == []
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "entry", [{"path": "../../compare/index.html"}, "text", {"path": 1, "title": "x", "made": "x"}]
)
def test_links_of_a_stranger_in_another_form_are_left_out(made: Path, entry: object) -> None:
    folder, target = made / "run" / "report", made / "compare" / "index.html"
    files.write_json(folder / "comparisons.json", {"schema": "comparisons/1", "comparisons": [entry]})
    assert (
        comparison_page.link_from_run_reports([made / "run"], target, "b against a", "2026-11-21T00:00:00Z", COMPARE)
        == []
    )
    assert links_of(folder / "index.html") == [target.resolve()]


def test_no_link_leads_to_another_server(made: Path) -> None:
    folder = made / "run" / "report"
    (folder / "https:" / "example.com").mkdir(parents=True)
    (folder / "https:" / "example.com" / "x.html").write_text("<p>", encoding="utf-8")
    entry = {"path": "https://example.com/x.html", "title": "x", "made": "x"}
    files.write_json(folder / "comparisons.json", {"schema": "comparisons/1", "comparisons": [entry]})
    assert page_content.find_existing_comparisons(folder) == []


def test_a_report_that_is_no_text_gets_no_link(made: Path) -> None:
    (made / "run" / "report" / "index.html").write_bytes(b"\xff")
    target = made / "compare" / "index.html"
    notes = comparison_page.link_from_run_reports(
        [made / "run"], target, "b against a", "2026-11-21T00:00:00Z", COMPARE
    )
    assert "has no link to the comparison" in notes[0]
