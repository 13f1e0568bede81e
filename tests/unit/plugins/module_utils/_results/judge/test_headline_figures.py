"""The headline figures of a run in words."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import headline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point


def kpi(value, unit="s", note=None, n=4, of=4, **more):
    return {
        "name": "m", "title": "Makespan", "unit": unit, "direction": "lower", "help": "h", "headline": True,
        "simulated": True,
        "value": value, "interval": None, "n": n, "of": of, "note": note, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kpis", "value", "text", "detail"),
    [
        ([kpi(12.34)], 12.34, "12.3 s", "4 of 4"),
        ([kpi(12.34), kpi(48.0)], "12.3 s (000), 48 s (001)", "12.3 s (000), 48 s (001)", "8 of 8 in 2 test points"),
        (
            [kpi(5.0), kpi(0.5), kpi(48.0), kpi(7.0)],
            "lowest 500 ms (001), highest 48 s (002)",
            "lowest 500 ms (001), highest 48 s (002)",
            "16 of 16 in 4 test points",
        ),
        (
            [kpi(None, at_least=20.0, note="≥ 20 s: 1 of 4 were not seen to reach it", n=3)],
            None,
            "≥ 20 s",
            "1 of 4 were not seen to reach it",
        ),
        ([kpi(3.0, unit="workloads")], 3.0, "3 of 4", ""),
        ([kpi(1.5, unit="1/s")], 1.5, "1.50/s", "4 of 4"),
        ([kpi(None, note="no log contains this figure", n=0)], None, "–", "no log contains this figure"),
    ],
)
def test_headline_figures_in_words(tmp_path, kpis, value, text, detail):
    points = [Point(f"{number:03d}", tmp_path, kpis=[one]) for number, one in enumerate(kpis)]
    (entry,) = headline.headline_figures(points)
    assert (entry["value"], entry["text"], entry["detail"], entry["simulated"]) == (value, text, detail, True)
