"""Texts of others control no terminal, mention nobody and calculate nothing."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    escape_control_characters,
    escape_csv_cell,
    escape_csv_row,
    escape_markdown_line,
)
from hypothesis import given
from hypothesis import strategies as st

PLUGINS = Path(__file__).parents[5] / "plugins"


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x1b]0;title\x07", "a\x00b", "\x9b31m", "\x7f", "a\rb", "\u202eabc", "\u2066x", "\ud800"]
)
def test_control_characters_are_made_visible(text):
    shown = escape_control_characters(text)
    assert len(shown) == len(text)
    assert not any(ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0 or sign in "\u202e\u2066\ud800" for sign in shown)


@given(st.text())
def test_other_texts_stay_and_nothing_is_changed_twice(text):
    assert escape_control_characters(escape_control_characters(text)) == escape_control_characters(text)
    assert escape_control_characters("Löwe\t→ 1\n🦁") == "Löwe\t→ 1\n🦁"
    escape_control_characters(text).encode()


def test_a_line_of_markdown_has_no_mention_no_markup_and_a_limit():
    line = escape_markdown_line("@org/team [x](http://y)\n# <b>`|*_\x1b[2J", 300)
    assert "@org" not in line and "\n" not in line and "\x1b" not in line
    assert line.startswith("@\u200borg/team \\[x\\](http://y) \\# \\<b\\>")
    assert len(escape_markdown_line("a" * 1000, 20)) == 20
    assert escape_markdown_line("&#64;org &commat;all") == "\\&\\#64;org \\&commat;all"


@pytest.mark.parametrize(
    "text", ["=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-", "=1"]
)
def test_a_cell_is_no_formula(text):
    assert escape_csv_cell(text)[0] in "'\u240d", text


@pytest.mark.parametrize("value", ["-1.5", "+2e-3", "-.5", "12", -3, 2.5, None, "", "a=b", "name", "2026-01-01"])
def test_numbers_and_other_texts_stay(value):
    assert escape_csv_cell(value) == value


@given(st.lists(st.text(max_size=9), min_size=1, max_size=4))
def test_no_cell_of_a_row_begins_as_a_formula(values):
    out = io.StringIO(newline="")
    csv.writer(out).writerow(escape_csv_row(values))
    for cell in next(csv.reader(io.StringIO(out.getvalue(), newline=""))):
        assert not cell.startswith(("=", "@", "\t", "\r"))
        if cell.startswith(("+", "-")):
            float(cell)


def test_each_writer_of_tables_escapes_its_cells():
    writers = [path for path in PLUGINS.rglob("*.py") if "csv.writer(" in path.read_text(encoding="utf-8")]
    assert len(writers) >= 5
    assert [path.name for path in writers if "escape_csv_row(" not in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("hidden", ["\u200b", "\u00ad", "\u2062", "\u3164", "\U000e0041"])
def test_nothing_is_hidden_in_a_line_of_markdown(hidden):
    assert escape_markdown_line(f"a{hidden}b") == "a\ufffdb"


def test_a_line_of_markdown_strikes_nothing_through_and_names_no_issue():
    assert escape_markdown_line("~~gone~~ (GH-1) gh-22 high-5 GH-x") == (
        "\\~\\~gone\\~\\~ (GH\u200b-1) gh\u200b-22 high-5 GH-x"
    )
