"""Files of a timeline: JSON lines that can be read again, and CSV."""

from __future__ import annotations

import csv
import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table


def test_what_is_written_is_read_back(mixed, tmp_path):
    _world, _folder, table = mixed
    timeline_table.write_jsonl_and_csv(table, tmp_path)
    again = timeline_table.read_timeline_jsonl(tmp_path / "timeline.jsonl")
    assert (again.header, again.name, again.outcome, again.censored) == (
        table.header,
        table.name,
        table.outcome,
        table.censored,
    )
    assert again.contradictions == table.contradictions
    for stage in table.earliest:
        for row in range(len(table)):
            mine, other = table.earliest[stage][row], again.earliest[stage][row]
            assert (math.isnan(mine) and math.isnan(other)) or mine == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (0, '"planned":12', '"planned":999999999999'),
        (0, '"planned":12', '"planned":-1'),
        (0, '"planned":12', '"planned":"twelve"'),
        (0, '"stages":', '"stages":7,"x":'),
        (1, '"stages":{', '"stages":{"created":["a","b"]},"x":{'),
        (1, '"contradictions":', '"y":'),
        (1, '"kind":', '"kind":[],"z":'),
        (1, "{", "{" + '"x":' + "[" * 90_000),
    ],
)
def test_a_timeline_of_another_form_is_an_error_that_names_the_file(mixed, tmp_path, line, old, new):
    timeline_table.write_jsonl_and_csv(mixed[2], tmp_path)
    path = tmp_path / "timeline.jsonl"
    lines = path.read_text().replace(f'"planned":{len(mixed[2])}', '"planned":12').splitlines(keepends=True)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new, 1)
    path.write_text("".join(lines))
    with pytest.raises(DataError, match=str(path)):
        timeline_table.read_timeline_jsonl(path)


def test_csv_is_relative_to_the_start_with_six_digits(mixed, tmp_path):
    world, _folder, table = mixed
    timeline_table.write_jsonl_and_csv(table, tmp_path)
    with open(tmp_path / "timeline.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == world.count
    first = rows[0]
    assert first["start_epoch"] == f"{world.start:.6f}"
    assert first["intended_s"] == "0.000000"
    assert float(first["created_latest_s"]) == pytest.approx(table.latest["created"][0] - world.start, abs=1e-6)
    assert rows[7]["sent_s"] == ""
    assert rows[7]["outcome"] == "unsent"


@pytest.mark.parametrize(
    ("name", "cell"),
    [('a "b", c', 'a "b", c'), ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'), ("@SUM(A1)", "'@SUM(A1)")],
)
def test_names_with_commas_and_quotes_survive_in_csv_and_are_no_formulas(mixed, tmp_path, name, cell):
    _world, _folder, table = mixed
    before, table.name[0] = table.name[0], name
    try:
        timeline_table.write_jsonl_and_csv(table, tmp_path)
    finally:
        table.name[0] = before
    with open(tmp_path / "timeline.csv", newline="") as stream:
        assert next(csv.DictReader(stream))["name"] == cell


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("timeline/1", "timeline/0"), "schema 'timeline/0', expected timeline/1"),
        (lambda text: "\n".join(text.splitlines()[:-1]) + "\n", "11 rows, but the header announces 12"),
        (lambda text: text[:-5], "truncated"),
        (lambda text: text + text.splitlines()[-1] + "\n", "more rows than the header's 12"),
        (lambda text: "", "not a JSON record"),
    ],
)
def test_a_file_that_is_not_whole_or_of_another_version_is_refused(mixed, tmp_path, change, message):
    timeline_table.write_jsonl_and_csv(mixed[2], tmp_path)
    path = tmp_path / "timeline.jsonl"
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=message):
        timeline_table.read_timeline_jsonl(path)


def test_a_missing_file_is_refused_with_what_writes_it(tmp_path):
    with pytest.raises(DataError, match="stage timeline of module results"):
        timeline_table.read_timeline_jsonl(tmp_path / "timeline.jsonl")
