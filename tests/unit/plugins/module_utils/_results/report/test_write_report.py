"""The report: self-contained, with all values escaped, created from the files that exist."""

from __future__ import annotations

import base64
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import latency_attribution
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import NEEDED, PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import (
    kpi_text_filters,
    page_content,
    write_report,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import read_timelines_by_point
from run_directory import World, write_run
from split_point import WrongClock, split

TEMPLATE = Path(__file__).parents[6] / "roles" / "results" / "templates" / "report.html.j2"
EVIL = "<script>alert('x')</script> & \"quoted\""


class Page(HTMLParser):
    """Tags in order, their attributes, and the text."""

    def __init__(self, path):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.styles = ""
        self._in = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.text += " "
        self._in = tag

    def handle_data(self, data):
        if self._in == "style":
            self.styles += data
        else:
            self.text += data

    def of(self, *names):
        return [attributes for tag, attributes in self.tags if tag in names]

    @property
    def words(self):
        return " ".join(self.text.split())


def test_a_known_cause_is_shown_with_and_without_what_its_evidence_is_about(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=4, training=False), {})])
    (top / "FAILURES").write_text("[Errno 28] No space left on device\n")
    everything(top, definitions)
    evidence = {"file": "FAILURES", "line": 1, "text": EVIL}
    finding = {"signature": "disk_full", "title": EVIL, "fault": "lab", "remedy": "Free space.", "count": 2}
    finding |= {"places": ["errors"], "points": [], "past_runs": 0, "first_seen": None}
    finding["evidence"] = [evidence, {**evidence, "line": 2, "about": "phase test"}]
    past = {"runs": 0, "signatures": {}}
    files.write_json(top / "findings.json", {"schema": "findings/1", "findings": [finding], "past": past})
    page = Page(Path(write_report.write_report(str(top), str(TEMPLATE))["path"]))
    assert f"FAILURES:1: {EVIL} FAILURES:2: phase test: {EVIL}" in page.words and not page.of("script")


def everything(top, definitions):
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    return write_report.write_report(str(top), str(TEMPLATE))


def rendered(top):
    """Return the page without plots, which take most of the time."""
    warnings: list[str] = []
    found = run_reader.read_run_directory(top)
    tables = read_timelines_by_point(found, warnings)
    verdict = files.read_json(top / "verdict.json") if (top / "verdict.json").exists() else {}
    drawn = {"across": [], "history": [], "repeated": [], "bisection": {}, "decisions": []}
    content = {**page_content.report_template_variables(found, verdict, tables, warnings), **drawn}
    path = top / "page.html"
    path.write_text(write_report.render_template(TEMPLATE, content), encoding="utf-8")
    return Page(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory, definitions):
    """(run directory, result of the report) of a run with two points, one of which failed."""
    top = tmp_path_factory.mktemp("made") / "run"
    worlds = [
        (World(count=5), {"fine_tuning_hyper_parameters.r": 4}),
        (World(count=5, outcomes={2: "failed", 3: "unfinished"}, gap=(1, 2)), {"fine_tuning_hyper_parameters.r": 8}),
    ]
    write_run(top, worlds)
    return top, everything(top, definitions)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run directory with one short point, to copy and damage."""
    return write_run(tmp_path_factory.mktemp("small") / "run", [(World(count=2, canary=1.0, run_for=2.0), {})])


def again(top, tmp_path, definitions, change):
    """Return the page of a copy of ``top`` after ``change``."""
    copy = tmp_path / "run"
    shutil.copytree(top, copy)
    change(copy)
    write_timeline(str(copy))
    write_kpis(str(copy), [definitions])
    write_verdict(str(copy), 0.5)
    return rendered(copy)


def test_the_report_of_one_workload_has_no_plural_and_no_percentage(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=1, canary=1.0, run_for=2.0), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    (answer,) = write_verdict(str(top), 0.5)["answer"]
    assert answer.startswith("The workload was scheduled within ")
    words = rendered(top).words
    assert answer in words and "of 1 workload that ended" in words and "mean of the 1 slowest workload." in words
    assert re.findall(r"\b1 [a-z ]*(?:workloads|rows|points|figures|checks)\b", words) == []


def test_a_load_by_several_clients_shows_what_each_sent_and_how_late(small, tmp_path, definitions):
    def divide(top):
        folder = top / "points" / "000"
        parts = split(folder, tmp_path / "parts", [WrongClock(), WrongClock(-500)])
        for name in ("ledger.jsonl", "observations.jsonl"):
            shutil.copyfile(parts / name, folder / name)

    words = again(small, tmp_path, definitions, divide).words
    assert "This load was sent by 2 clients." in words and len(re.findall(r"\d 1 of 1( [\d.]+ [mµ]s){3}", words)) == 2
    assert "that of the timeline" in words and "Lateness of client 1" not in words


def test_the_knee_of_a_stage_is_no_quantile_of_the_time_that_it_took(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=30, rate=2.0), {})])
    plan = top / "points" / "000" / "plan.jsonl"
    header, *rest = files.read_json_lines(plan)
    header["arrival"] = {"type": "steps", "steps": [{"rate": 2.0, "duration": 5.0}] * 3}
    files.write_json_lines(plan, iter([header, *rest]), "plan/1")
    write_timeline(str(top))
    of_project = TEMPLATE.parents[2] / "workload_scale" / "files" / "kpis.yml"
    write_kpis(str(top), [definitions, str(of_project)])
    warnings: list[str] = []
    found = run_reader.read_run_directory(top)
    point = page_content.report_template_variables(found, {}, read_timelines_by_point(found, warnings), warnings)[
        "points"
    ][0]
    titles = [one["title"] for one in point["kpis"]]
    assert "Knee of created" in titles and "created, p95" not in titles
    kpis = {one["name"]: one for one in found.points[0].kpis}
    created = next(one for one in point["stages"] if one["name"] == "created")
    place = page_content.QUANTILES.index("p95")
    assert created["took"][place]["value"] == kpis["duration_created_p95"]["value"]
    assert kpi_text_filters.format_kpi_value(created["took"][place]) == kpi_text_filters.format_kpi_value(
        kpis["duration_created_p95"]
    )


def test_nothing_is_fetched_from_anywhere(made):
    html = Page(made[0] / "report" / "index.html")
    for attributes in html.of("img", "script", "iframe", "source", "video", "object", "embed"):
        assert attributes["src"].startswith("data:image/png;base64,")
    for attributes in html.of("a", "link"):
        # A link leads to a place of the page, or to a file beside it that a reader may open.
        assert attributes["href"].startswith(("#", "data:,", "plots/"))
        assert not attributes["href"].startswith("plots/") or (made[0] / "report" / attributes["href"]).exists()
    assert not html.of("script", "iframe", "object", "embed")
    assert "url(" not in html.styles
    assert "@import" not in html.styles
    policy = next(one["content"] for one in html.of("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_every_plot_file_is_embedded_as_it_is(made):
    top, result = made
    files = {path.read_bytes() for path in (top / "report" / "plots").glob("*.png")}
    assert len(files) == len(result["plots"]) == 2 * 6 + 5
    embedded = {base64.b64decode(one["src"].partition(",")[2]) for one in Page(top / "report" / "index.html").of("img")}
    assert embedded == files


def test_every_plot_says_in_words_what_it_shows(made):
    for attributes in Page(made[0] / "report" / "index.html").of("img"):
        assert len(attributes["alt"]) > 60
        assert int(attributes["width"]) > 500


def test_verdict_and_headline_come_before_everything_else(made):
    tags = Page(made[0] / "report" / "index.html").tags
    wanted = [number for number, (_tag, one) in enumerate(tags) if "verdict" in one.get("class", "")]
    cards = [number for number, (_tag, one) in enumerate(tags) if one.get("class") == "card"]
    first = next(number for number, (tag, _one) in enumerate(tags) if tag in ("img", "table", "h2"))
    assert (len(wanted), len(cards)) == (1, 5)
    assert wanted[0] < cards[0] < cards[-1] < first


def test_the_verdict_stands_with_its_reason(made):
    html = Page(made[0] / "report" / "index.html")
    assert "REGRESSION Point 001: 3 of 5 workloads succeeded; 1 failed" in html.words, "the reason leads"
    assert "Time until scheduled, P95: 304 ms (r = 4), 423 ms (r = 8), difference 119 ms" in html.words
    assert html.of("section")[0]["class"] == "verdict regression"


def test_what_was_simulated_is_said_in_words_and_marked(made):
    words = Page(made[0] / "report" / "index.html").words
    assert "Part of this run was simulated. Simulated writers: the node." in words
    rests = "Simulated stages, which depend on a simulated writer: running, pods running, pods succeeded"
    assert f"{rests}, succeeded, failed." in words
    assert "the API server (created)" in words and "the controller (accepted" in words
    assert words.count("SIMULATED") > 10


def test_the_words_on_the_page_and_the_plots_call_the_same_stages_simulated(made):
    table = timeline_table.read_timeline_jsonl(made[0] / "points" / "000" / "timeline.jsonl")
    data = PointData(table)
    names = [one["name"] for one in table.stages if not one["name"].endswith("_first")]
    first_pods = {one["name"] for one in table.stages} - set(names)
    by_plots = {formats.stage_display_name(name) for name in names if data.is_simulated(name, NEEDED)}
    said = page_content.simulated_and_real_stages(run_reader.read_run_directory(made[0]), {"000": table})
    assert set(said["stages"]) == by_plots
    assert {name for one in said["real"] for name in one["stages"]} == {
        formats.stage_display_name(name) for name in names
    } - by_plots
    parts = {one["name"]: one["simulated"] for one in latency_attribution.attribution_document(data, "", "")["stages"]}
    for name in parts.keys() - first_pods - {"sent"}:
        assert parts[name] == (formats.stage_display_name(name) in by_plots), name


def test_of_a_real_cluster_nothing_is_called_simulated(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=3, simulated_writers=()), {})])
    record = files.read_yaml(top / "cluster.yml")
    record["clusters"]["sutest"]["simulated"] = False
    files.write_yaml(top / "cluster.yml", record)
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    assert "simulated" not in rendered(top).words.replace("simulated no ", "").lower()


def on_nodes(folder, definitions, nodes):
    top = write_run(folder, [(World(count=len(nodes), training=False, nodes=dict(enumerate(nodes))), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    return rendered(top)


def test_of_workloads_on_real_nodes_nothing_is_called_simulated(tmp_path, definitions):
    words = on_nodes(tmp_path / "run", definitions, ["real-0"] * 3).words
    assert "simulated" not in words.replace("simulated yes: node, except on real-0", "").lower()


def test_workloads_on_real_and_on_simulated_nodes_are_shown_apart(tmp_path, definitions):
    page = on_nodes(tmp_path / "run", definitions, ["real-0", "fake-0", "real-0", "fake-0", "fake-0"])
    assert "3 workloads ran on simulated nodes" in page.words
    assert "pods running, simulated nodes SIMULATED" in page.words and "pods running SIMULATED" not in page.words
    found = write_report.write_report(str(tmp_path / "run"), str(TEMPLATE))
    plots = {Path(path).stem for path in found["plots"]}
    kinds = {one.removeprefix("000_real_") for one in plots if one.startswith("000_real_")}
    assert kinds and plots == {f"000_{nodes}_{kind}" for nodes in ("real", "simulated") for kind in kinds}


def test_what_a_user_wrote_is_shown_and_never_obeyed(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=2, training=False), {"x": EVIL})], command=EVIL, project=EVIL)
    provenance = {"schema": "provenance/1", "settings": {EVIL: [{"source": EVIL, "value": EVIL, "where": EVIL}]}}
    files.write_yaml(top / "provenance.yml", provenance)
    (top / "FAILURES").write_text(EVIL)
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    html = rendered(top)
    assert not html.of("script")
    assert html.text.count(EVIL) >= 5


def test_a_second_report_is_the_same_to_the_byte(made):
    top, result = made
    second = write_report.write_report(str(top), str(TEMPLATE))
    assert (result["changed"], second["changed"]) == (True, False)


def test_settings_name_who_set_them_and_what_they_replaced(made):
    words = Page(made[0] / "report" / "index.html").words
    assert "fine_tuning_hyper_parameters.r 16 set by: overrides -e instead of: 4 (default), 8 (preset light)" in words


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (["run.yml"], "run.yml is missing"),
        (["provenance.yml"], "provenance.yml is missing"),
        (["points/000/point.yml"], "points/000/point.yml is missing"),
        (["points/000/plan.jsonl"], "plan.jsonl is missing"),
        (["points/000/ledger.jsonl"], "ledger.jsonl is missing"),
        (["points/000/observations.jsonl"], "observations.jsonl is missing"),
        (["points/000"], "There is no test point"),
        (["run.yml", "cluster.yml", "provenance.yml", "settings.yml", "points"], "run.yml is missing"),
    ],
)
def test_whatever_is_missing_the_report_is_made_and_says_so(small, tmp_path, definitions, lost, said):
    def lose(top):
        for name in lost:
            path = top / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert said in again(small, tmp_path, definitions, lose).words


@pytest.mark.parametrize("name", ["run.yml", "cluster.yml", "provenance.yml", "points/000/point.yml"])
@pytest.mark.parametrize("text", ["", "]: not yaml [", "- a list\n", "x: 1\n"])
def test_a_damaged_document_does_not_stop_the_report(small, tmp_path, definitions, name, text):
    html = again(small, tmp_path, definitions, lambda top: (top / name).write_text(text))
    assert html.of("section")[0]["id"] == "verdict"


@pytest.mark.parametrize("name", ["plan", "ledger", "observations", "training"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_run_that_was_killed_anywhere_is_reported(small, tmp_path, definitions, name, share):
    def cut(top):
        path = top / "points" / "000" / f"{name}.jsonl"
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    assert again(small, tmp_path, definitions, cut).of("section")[0]["id"] == "verdict"


def test_a_figure_judged_by_history_is_drawn_with_the_reason_below(small, tmp_path):
    top = tmp_path / "run"
    shutil.copytree(small, top)
    write_timeline(str(top))
    write_verdict(str(top), 0.5)
    verdict = files.read_json(top / "verdict.json")
    series = [{"run": str(at), "value": 1.0 + at / 9, "group": "new" if at == 3 else "old"} for at in range(4)]
    kpi = {
        "point": "000", "name": "makespan", "title": "Makespan", "unit": "s", "direction": "lower", "value": 1.3,
        "reading": "regression", "why": "30 % slower than 3 runs", "simulated": False, "series": series,
    }  # fmt: skip
    files.write_json(top / "verdict.json", {**verdict, "kpis": [kpi, {**kpi, "reading": "pass"}]}, "verdict/2")
    write_report.write_report(str(top), str(TEMPLATE))
    words = Page(top / "report" / "index.html").words
    assert "Compared with earlier runs" in words and "Regression: 30 % slower than 3 runs." in words
    assert sorted(path.name for path in (top / "report/plots").glob("history_*")) == [
        "history_00.csv",
        "history_00.png",
    ]


def test_a_point_that_was_measured_again_keeps_the_figures_of_its_first_attempt(tmp_path, definitions):
    worlds = [(World(count=3, training=False, run_for=run_for), {"gpus": run_for}) for run_for in (2.0, 4.0)]
    top = write_run(tmp_path / "run", worlds)
    shutil.copytree(top / "points/001", top / "points/001-2")
    record = files.read_yaml(top / "points/001/point.yml")
    again = {**record, "attempt": 2, "uuid": f"{record['uuid']}-2"}
    files.write_yaml(top / "points/001-2/point.yml", again, "point/2")
    everything(top, definitions)
    plots = sorted((top / "report/plots").glob("points_*.csv"))
    assert plots
    for plot in plots:
        rows = [line.split(",") for line in plot.read_text().splitlines()[1:]]
        assert [row[0] for row in rows] == ["000", "001", "001-2"]
        assert all(row[2] for row in rows), plot.name


def test_without_a_verdict_the_report_says_that(made, tmp_path):
    top = tmp_path / "run"
    shutil.copytree(made[0], top)
    (top / "verdict.json").unlink()
    assert "UNKNOWN There is no verdict." in rendered(top).words


def test_a_point_that_can_not_be_worked_on_is_a_warning_and_leaves_no_old_file(made, tmp_path, definitions):
    top = tmp_path / "run"
    shutil.copytree(made[0], top)
    (top / "points" / "000" / "timeline.jsonl").write_text("not this\n")
    result = write_kpis(str(top), [definitions])
    assert [row["point"] for row in result["points"]] == ["001"]
    assert "point 000: no kpis.json" in result["warnings"][0]
    assert not (top / "points" / "000" / "kpis.json").exists()


def test_an_unknown_point_is_refused_with_those_that_there_are(made):
    with pytest.raises(InputError, match="no test point '007'; it has 000, 001"):
        write_timeline(str(made[0]), ["007"])


def test_a_directory_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        write_report.write_report(str(tmp_path / "nowhere"), str(TEMPLATE))


def test_a_template_that_is_not_there_is_refused(made, tmp_path):
    with pytest.raises(InputError, match="report template .* does not exist"):
        write_report.write_report(str(made[0]), str(tmp_path / "none.j2"))


def test_the_settings_of_a_point_say_how_late_is_too_late(small, tmp_path, definitions):
    def strict(top):
        files.write_yaml(top / "points" / "000" / "settings.yml", {"workload_max_lateness": 0.000001})

    assert "see its checks. 99 % of 2 workloads were sent at most" in again(small, tmp_path, definitions, strict).words


def test_the_nodes_of_each_point_are_shown_if_they_were_scaled_between_points(tmp_path):
    top = write_run(tmp_path / "run", [(World(count=3), {}), (World(count=3), {})])

    def notes(number: int) -> list[str]:
        return list(
            page_content.report_template_variables(run_reader.read_run_directory(top), {}, {}, [])["points"][number][
                "notes"
            ]
        )

    for name, count in (("000", 1), ("001", 3)):
        run = {"schema": "ran/1", "run": "t1-abcdef", "point": name, "at": "2026-01-01T00:00:00.000Z"}
        files.write_json(top / "points" / name / "ran.json", {**run, "nodes": {"count": count, "gpus": 8 * count}})
    assert not any("scaled" in one for number in (0, 1) for one in notes(number))
    record = files.read_yaml(top / "points" / "001" / "point.yml")
    files.write_yaml(top / "points" / "001" / "point.yml", {**record, "nodes": {"fake_gpu_nodes": 3}})
    assert notes(0)[-1] == "The cluster was scaled to 1 node with 8 GPUs."
    assert notes(1)[-1] == "The cluster was scaled to 3 nodes with 24 GPUs."


def test_the_sentence_beside_the_verdict_names_the_figure_that_is_outside_its_limit():
    checks = [{"check": "objects", "result": "pass", "detail": "fine", "point": "000"}]
    figure = {"point": "000", "name": "makespan", "reading": "not judged", "why": "Too slow."}
    verdict = {"verdict": "regression", "checks": checks, "kpis": [{**figure, "limit": {"result": "outside"}}]}
    assert page_content.decisive_reason_of_verdict(verdict) == "makespan (point 000): Too slow."
    assert page_content.decisive_reason_of_verdict({**verdict, "verdict": "pass", "kpis": []}).startswith(
        "No limit was exceeded"
    )
