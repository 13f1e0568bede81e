# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CI engines: each is found by its environment, and names its job."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_engines

ENGINES = ci_engines.load_engine_definitions(Path(__file__).parents[5] / "roles" / "ci" / "files" / "engines")
TERMINAL = {"HOME": "/home/ann", "PATH": "/bin"}

ENVIRONMENTS = {
    "openshift_ci": (
        {
            "OPENSHIFT_CI": "true",
            "JOB_NAME": "pull-ci-org-repo-main-scale-light",
            "JOB_NAME_SAFE": "scale-light",
            "JOB_TYPE": "presubmit",
            "BUILD_ID": "1859",
            "REPO_OWNER": "org",
            "REPO_NAME": "repo",
            "PULL_NUMBER": "12",
            "PULL_PULL_SHA": "c0ffee",
        },
        {"test": "scale-light", "repository": "org/repo", "pull_request": "12", "revision": "c0ffee"},
        "pull/org_repo/12/pull-ci-org-repo-main-scale-light/1859",
    ),
    "github_actions": (
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": "/w/event.json",
            "GITHUB_REPOSITORY": "org/repo",
            "GITHUB_JOB": "seatrial",
            "GITHUB_RUN_ID": "77",
            "GITHUB_RUN_ATTEMPT": "2",
            "GITHUB_SERVER_URL": "https://github.example.com",
            "GITHUB_WORKSPACE": "/w",
            "GITHUB_SHA": "c0ffee",
        },
        {
            "event": "/w/event.json",
            "url": "https://github.example.com/org/repo/actions/runs/77",
            "artifacts": "/w/artifacts",
            "build": "77-2",
        },
        "logs/org_repo/seatrial/77-2",
    ),
    "gitlab": (
        {
            "GITLAB_CI": "true",
            "CI_PROJECT_PATH": "group/sub/project",
            "CI_MERGE_REQUEST_IID": "3",
            "CI_JOB_NAME": "scale: [light]",
            "CI_JOB_ID": "900",
            "CI_JOB_URL": "https://gitlab.example.com/j/900",
            "CI_PROJECT_DIR": "/builds/p",
        },
        {"pull_request": "3", "artifacts": "/builds/p/artifacts", "url": "https://gitlab.example.com/j/900"},
        "pull/group_sub_project/3/scale_light_/900",
    ),
    "jenkins": (
        {
            "JENKINS_URL": "https://jenkins.example.com",
            "JOB_NAME": "perf/nightly",
            "BUILD_NUMBER": "5",
            "WORKSPACE": "/j",
            "BUILD_URL": "https://jenkins.example.com/5",
        },
        {"artifacts": "/j/artifacts", "url": "https://jenkins.example.com/5"},
        "logs/perf_nightly/5",
    ),
    "tekton": (
        {"TEKTON_PIPELINE_RUN": "scale-x7k", "TEKTON_PIPELINE": "scale", "TEKTON_EVENT": "/e"},
        {"event": "/e", "build": "scale-x7k"},
        "logs/scale/scale-x7k",
    ),
    "terminal": ({}, {"job": "local"}, "logs/local/t1"),
}


@pytest.mark.parametrize("engine", ENVIRONMENTS)
def test_an_engine_is_found_by_its_environment_and_names_its_job(engine: str) -> None:
    environ, expected, path = ENVIRONMENTS[engine]
    found = ci_engines.read_current_job(ENGINES, "", {**TERMINAL, **environ}, {"started": "t1"})
    assert found.engine == engine
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.path == path


def test_every_engine_has_a_test_here() -> None:
    assert set(ENGINES) == set(ENVIRONMENTS)


def test_a_detecting_value_must_be_the_one_of_the_file() -> None:
    assert ci_engines.detect_ci_engine(ENGINES, {"GITHUB_ACTIONS": "false"}) == "terminal"
    assert ci_engines.detect_ci_engine(ENGINES, {"JENKINS_URL": ""}) == "terminal"


def test_a_known_value_goes_before_the_environment() -> None:
    environ = ENVIRONMENTS["github_actions"][0]
    found = ci_engines.read_current_job(ENGINES, "", environ, {"pull_request": "9", "test": "mine"})
    assert (found.pull_request, found.test, found.path) == ("9", "mine", "pull/org_repo/9/seatrial/77-2")


def test_parts_of_a_path_are_no_paths() -> None:
    environ = {**ENVIRONMENTS["openshift_ci"][0], "PULL_NUMBER": "../..", "BUILD_ID": "a b$(id)/.."}
    path = ci_engines.read_current_job(ENGINES, "", environ, {}).path
    assert path == "pull/org_repo/_/pull-ci-org-repo-main-scale-light/a_b_id_"
    assert ".." not in path.split("/")


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'gitlab'"):
        ci_engines.read_current_job(ENGINES, "gitlabb", {}, {})


def test_an_unknown_key_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("title: Mine\nbiuld: [x]\n", encoding="utf-8")
    with pytest.raises(DataError, match="unknown key 'biuld' .did you mean 'build'"):
        ci_engines.load_engine_definitions(tmp_path)
