# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run goes on with the ``-e`` of sessions that left something, and not with those of one that failed for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import resumed_extra_vars
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsLayer,
)
from hypothesis import given
from hypothesis import strategies as st

LEASE = {"what": "lease t1121-abcdef: 2 machines in cloud02"}
WORKS, BACK = ["acquire", "wait"], ["cleanup", "release"]


class Run:
    """A run directory with sessions in it."""

    def __init__(self, folder: Path, **extra: Any) -> None:
        self.folder = folder
        self.record: dict[str, Any] = {"held": [], "sessions": []}
        given = {name: value for name, value in extra.items() if name != "overrides"}
        layers = (SettingsLayer("overrides", "overrides", {"a.b": 1}), SettingsLayer("extra", "-e", given))
        self.request = resumed_extra_vars.request_of_new_run(RequestedSettings("lease", (), layers), extra)
        self.begin(WORKS)

    def begin(self, chosen: list[str]) -> None:
        session = {"started": f"2026-11-22T08:{len(self.record['sessions']):02d}:00Z"}
        self.record["sessions"].append({**session, **resumed_extra_vars.resources_held_before(self.record, chosen)})

    def end(self, *failures: str, held: tuple[dict[str, str], ...] = ()) -> None:
        self.record["held"] = list(held)
        resumed_extra_vars.record_whether_extra_vars_stay(self.record, list(failures), self.folder)

    def go_on(self, chosen: list[str] = WORKS, **extra: Any) -> list[str]:
        more = SettingsLayer("extra", "-e", extra)
        self.request, dropped = resumed_extra_vars.continued_request_and_dropped_names(
            self.request, more, self.record["sessions"], chosen
        )
        self.request = RequestedSettings.from_document(self.request.document(), "request.yml")
        self.begin(chosen)
        return dropped

    @property
    def extra(self) -> dict[str, Any]:
        return self.request.layers_of_kind("extra")[0].values


def test_a_wrong_setting_of_a_session_that_came_to_nothing_is_gone(tmp_path: Path) -> None:
    run = Run(tmp_path, quads_lease_model=["R999"], quads_lease_count=3)
    run.end("no such model")
    assert run.go_on(quads_lease_count=3) == ["quads_lease_model"]
    assert run.extra == {"quads_lease_count": 3}


def test_what_an_earlier_session_was_given_comes_back_when_a_later_one_fails(tmp_path: Path) -> None:
    run = Run(tmp_path, quads_lease_count=3)
    run.end(held=(LEASE,))
    run.go_on(quads_lease_count=99, quads_lease_wait_timeout=1)
    run.end("too slow", held=(LEASE,))
    assert sorted(run.go_on()) == ["quads_lease_count", "quads_lease_wait_timeout"]
    assert run.extra == {"quads_lease_count": 3}


def test_a_session_that_failed_and_holds_something_keeps_its_settings(tmp_path: Path) -> None:
    run = Run(tmp_path, quads_lease_api_url="https://quads.example.com")
    run.end("too slow", held=(LEASE,))
    assert run.go_on() == []
    assert run.extra == {"quads_lease_api_url": "https://quads.example.com"}


def test_a_killed_session_keeps_its_settings(tmp_path: Path) -> None:
    run = Run(tmp_path, quads_lease_count=3)
    assert run.go_on() == []
    assert run.extra == {"quads_lease_count": 3}


def test_points_that_were_measured_keep_the_settings_that_they_were_measured_with(tmp_path: Path) -> None:
    run = Run(tmp_path, fine_tuning_count=9)
    (tmp_path / "points/001").mkdir(parents=True)
    files.write_yaml(
        tmp_path / "points/001/point.yml",
        {
            "schema": "point/2",
            "point": "001",
            "attempt": 1,
            "uuid": "0",
            "settings": {},
            "status": "passed",
            "ended": "2026-11-22T08:00:30Z",
        },
        "point/2",
    )
    run.end("the second point failed")
    assert run.go_on(fine_tuning_timeout=1) == []
    run.end("too short")
    assert run.go_on() == ["fine_tuning_timeout"]
    assert run.extra == {"fine_tuning_count": 9}


def test_who_gives_back_goes_by_everything_that_was_given(tmp_path: Path) -> None:
    run = Run(tmp_path, quads_lease_api_url="https://quads.example.com")
    run.end("no such model")
    assert run.go_on(BACK, cluster_keep=False) == []
    assert run.extra == {"quads_lease_api_url": "https://quads.example.com", "cluster_keep": False}
    run.end()
    assert sorted(run.go_on()) == ["cluster_keep", "quads_lease_api_url"]


def test_the_matrix_of_a_run_stays_with_its_points_and_overrides_by_the_command_line_go(tmp_path: Path) -> None:
    run = Run(tmp_path, matrix={"fine_tuning_count": [1, 2]}, overrides={"a.b": 1})
    run.end("no")
    assert run.go_on() == ["overrides"]
    assert run.extra == {"matrix": {"fine_tuning_count": [1, 2]}}
    assert run.request.layers_of_kind("overrides") == []


def test_overrides_of_an_inventory_stay(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.end("no")
    assert run.go_on() == []
    assert run.request.layers_of_kind("overrides")[0].values == {"a.b": 1}


SESSIONS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), st.booleans(), st.booleans()), max_size=6
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), st.booleans(), SESSIONS)
def test_only_sessions_that_left_something_are_carried_on(empty, first, failed, sessions):
    run = Run(empty, **first)
    run.end(*["no"] * failed)
    expected = {} if failed else first
    for number, (extra, fails, takes) in enumerate(sessions):
        run.go_on(**extra)
        assert run.extra == {**expected, **extra}
        held = (*map(dict, run.record["held"]), *([{"what": str(number)}] if takes else []))
        run.end(*["no"] * fails, held=held)
        if not fails or takes:
            expected = {**expected, **extra}
    run.go_on()
    assert run.extra == expected
