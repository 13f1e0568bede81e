"""The report in a real browser: nothing overflows, the verdict is in sight, nothing is fetched, no error is raised."""

from __future__ import annotations

import time
from pathlib import Path

import fetch_test_servers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import compare_runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import HistoryRequest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import LabelRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.write_report import write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from browser import Browser, program
from history_copies import write_copies
from history_series import noisy
from run_directory import World, write_run

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(program() is None, reason="no chromium in PATH: apt-get install chromium"),
]
ROLE = Path(__file__).parents[2] / "roles"
#: Width and height of a telephone and of a laptop, in CSS pixels.
SCREENS = [(390, 844), (1440, 900)]
#: Of each table: whether it is wider than its frame, and whether it says that it scrolls.
TABLES = (
    "[...document.querySelectorAll('.wide')].filter(one => one.checkVisibility())"
    ".map(one => [one.scrollWidth > one.clientWidth + 1, getComputedStyle(one, '::before').display !== 'none'])"
)
LONG = "a-name-that-goes-on-and-on-" * 6


def good():
    return [(World(count=12), {})], {}


def bad():
    fates = {3: "failed", 7: "unfinished", 11: "refused", 13: "lost", 17: "unsent", 19: "deleted"}
    error = f"Submit the workloads: namespace {LONG} is not there " * 8
    phases = {
        "test": {"status": "failed", "started": "2026-11-21T00:00:00Z", "seconds": 3.0, "error": error},
        "report": {"status": "running", "started": "2026-11-21T00:01:00Z"},
    }
    return [(World(count=40, rate=8, outcomes=fates, gap=(2, 3)), {})], {"phases": phases, "command": LONG}


def matrix():
    settings = [{f"fine_tuning_{LONG}": LONG, "fine_tuning_hyper_parameters.r": 2**number} for number in range(6)]
    worlds = [World(count=3, seed=number, run_for=1.0 + number, canary=5.0) for number in range(6)]
    return list(zip(worlds, settings, strict=True)), {"presets": ["multi_gpu", "another_preset_with_a_long_name"]}


def nothing():
    return [], {"phases": {}}


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module", params=[good, bad, matrix, nothing], ids=lambda one: one.__name__)
def report(request, tmp_path_factory):
    """(name, path) of the report of a run."""
    worlds, changes = request.param()
    top = write_run(tmp_path_factory.mktemp("report") / "run", worlds, **changes)
    kpis = [str(ROLE / "results" / "files" / "kpis" / "workload.yml"), str(ROLE / "fine_tuning" / "files" / "kpis.yml")]
    write_timeline(str(top))
    write_kpis(str(top), kpis)
    write_verdict(str(top), 0.5)
    if request.param is good:  # with the pictures of a regression
        write_copies(
            top, top.parent / "history", [*noisy(1, 0.6, 9), *noisy(2, 0.8, 9)], labels={"openshift": "4.19.3"}
        )
        past = HistoryRequest((str(top.parent / "history"),), rules=LabelRules(("ran.openshift",)))
        write_copies(top, top.parent / "history", noisy(3, 1.0, 6), since=30)
        write_verdict(str(top), 0.5, past=past)
        assert "regression" in (top / "verdict.json").read_text(encoding="utf-8")
    return request.param.__name__, Path(write_report(str(top), str(ROLE / "results/templates/report.html.j2"))["path"])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_nothing_overflows_and_the_verdict_is_in_sight(browser, report, width, height, dark):
    name, path = report
    browser.messages.clear()
    browser.open(path, width, height, dark)
    assert browser.value("window.innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    # Also nothing is cut off at the edge of a box; what is wider than the page scrolls in a box of its own.
    outside = "[...document.querySelectorAll('main *')].filter(one => !one.closest('.wide, .unseen')"
    assert browser.value(f"{outside} && one.getBoundingClientRect().right > {width} + 0.5).length") == 0
    assert browser.value("document.querySelector('#verdict').getBoundingClientRect().bottom") <= height
    if name in ("good", "matrix"):
        assert browser.value("document.querySelector('.cards').getBoundingClientRect().bottom") <= height
    assert browser.messages == []


@pytest.mark.parametrize("width", [390, 1440])
def test_a_table_says_that_it_scrolls_exactly_if_it_does(browser, report, width):
    name, path = report
    browser.open(path, width, 844)
    # An animation that a scroll drives has no effect before the browser has drawn the page, on a busy machine late.
    deadline = time.monotonic() + 120
    found = browser.value(TABLES)
    while any(scrolls != says for scrolls, says in found) and time.monotonic() < deadline:
        browser.result("new Promise(drawn => requestAnimationFrame(drawn))")
        found = browser.value(TABLES)
    assert all(scrolls == says for scrolls, says in found), found
    assert width > 390 or name == "nothing" or any(scrolls for scrolls, _says in found), "the table of stages is wide"


def test_every_plot_is_shown(browser, report):
    name, path = report
    browser.open(path, 1440, 900)
    past = browser.value("document.querySelectorAll('img[alt*=\"its value in \"]').length")
    assert (past > 0) is (name == "good"), "figures that are judged by history are drawn"
    assert browser.value("[...document.images].filter(one => !one.naturalWidth).length") == 0


def test_words_are_as_dark_as_their_ground_asks(browser, report):
    """Contrast of all text of at least 4.5 (WCAG 2.1, 1.4.3), in light and dark."""
    _name, path = report
    for dark in (False, True):
        browser.open(path, 1440, 900, dark)
        assert browser.value(CONTRAST) == []


def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    tops = []
    for number, world in enumerate((World(count=40, rate=8), World(count=40, rate=8, run_for=5.0, seed=2))):
        tops.append(str(write_run(folder / f"run-{number}", [(world, {})], id=f"t1121-abcde{number}")))
    definitions = [str(ROLE / "results" / "files" / "kpis" / "workload.yml")]
    template = str(ROLE / "results" / "templates" / "compare.html.j2")
    return Path(compare_runs.write_run_comparison(tops, str(folder / "compare"), definitions, template)["path"])


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Path of the page that compares two runs."""
    return compared(tmp_path_factory)


@pytest.fixture(scope="module")
def axe():
    """The rules of axe-core as JavaScript."""
    path = fetch_test_servers.axe() / "axe.min.js"
    if not path.is_file():
        pytest.skip("no axe-core here (tools/fetch_test_servers.py axe)")
    return path.read_text(encoding="utf-8")


def violations(browser, axe):
    browser.value(axe)
    found = browser.result("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_axe_finds_nothing_in_the_report(browser, report, axe, width, height, dark):
    browser.messages.clear()
    browser.open(report[1], width, height, dark)
    assert violations(browser, axe) == []
    assert browser.messages == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_the_comparison_reads_at_both_widths_and_axe_finds_nothing(browser, comparison, axe, width, height, dark):
    browser.messages.clear()
    browser.open(comparison, width, height, dark)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("[...document.images].filter(one => !one.naturalWidth).length") == 0
    assert violations(browser, axe) == []
    assert browser.messages == []


def test_the_keyboard_reaches_everything_that_can_be_used(browser, report):
    _name, path = report
    browser.open(path, 1440, 900)
    browser.press("Tab")
    assert browser.value("document.activeElement.className") == "skip"
    assert browser.value("document.activeElement.getBoundingClientRect().top") >= 0
    browser.press("Enter")
    assert browser.value("location.hash") == "#verdict"
    browser.open(path, 1440, 900)
    usable = "[...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')]"
    wanted = browser.value(f"{usable}.filter(one => one.checkVisibility()).length")
    seen = 0
    for _ in range(wanted + 5):
        browser.press("Tab")
        if browser.value("document.activeElement === document.body"):
            break
        outline = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        assert browser.value(f"document.activeElement.className === 'skip' || {outline}")
        seen += 1
    assert seen == wanted


def test_on_paper_nothing_is_cut_off_or_hidden(browser, report):
    _name, path = report
    browser.open(path, 794, 1123, True)
    browser.call("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.value("[...document.querySelectorAll('details')].every(one => one.scrollHeight > 0)")
        printed = browser.call("Page.printToPDF", {"preferCSSPageSize": False})["data"]
        assert len(printed) > 10_000
    finally:
        browser.call("Emulation.setEmulatedMedia", {"media": ""})


CONTRAST = """
(() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const part = one => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = one => {
    for (; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const one of document.querySelectorAll('main *')) {
    if (![...one.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) bad.push(`${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 40)} ${contrast}`);
  }
  return [...new Set(bad)];
})()
"""
