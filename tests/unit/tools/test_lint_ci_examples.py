# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make lint finds mistakes in the examples of docs/ci.md."""

from __future__ import annotations

import lint_ci_examples
import pytest

PAGE = lint_ci_examples.PAGE.read_text(encoding="utf-8")


def test_the_examples_are_valid() -> None:
    assert lint_ci_examples.problems(PAGE) == []


@pytest.mark.parametrize(
    ("right", "wrong", "engine"),
    [
        ("runs-on: [self-hosted, lab]", "run-on: [self-hosted, lab]", "github_actions"),
        ("  checks: write", "  checks: writes", "github_actions"),
        ("when: always\n    paths", "when: alway\n    paths", "gitlab"),
        ("  timeout: 3h\n  variables", "  timeout: [3h]\n  variables", "gitlab"),
        ("      workingDir:", "      workDir:", "tekton"),
        ("      script: |", "      command: [sh]\n      script: |", "tekton"),
        ("          from: src\n", "", "openshift_ci"),
        ("agent { label 'lab' }", "agent { label 'lab'", "jenkins"),
        ("kind: Task", "kind: [Task", "tekton"),
        ("<!-- test: jenkins -->", "<!-- test: travis -->", "travis"),
    ],
)
def test_a_mistake_in_an_example_is_found(right: str, wrong: str, engine: str) -> None:
    assert right in PAGE
    found = lint_ci_examples.problems(PAGE.replace(right, wrong, 1))
    assert found and all(one.startswith(f"{engine}: ") for one in found)
