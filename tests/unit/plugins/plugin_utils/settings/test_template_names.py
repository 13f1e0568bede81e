# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A template may wait for what the run defines, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.setting_templates import (
    UnsafeText,
    first_undefined_name,
    has_template,
    mark_unsafe,
    names_in_template,
)

SETTINGS = {
    "count": 3,
    "kubeconfig": "{{ cluster_acquired.sutest.kubeconfig }}",
    "wrong": "{{ nosuch }}",
    "circle": "{{ circle }}",
    "literal": UnsafeText("{{ nosuch }}"),
}
VARIABLES = {"lab": "lab-{{ run_id }}", "inventory_hostname": "localhost"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{ nosuch }}", "nosuch"),
        ("{{ cluster_acquired.sutest.kubeconfig ~ nosuch }}", "nosuch"),
        (["{{ wrong }}"], "nosuch"),
        ({"a": "{{ count + wrong }}"}, "nosuch"),
        ("{{ count.nosuch }}", ""),
        ("{{ circle }}", ""),
        ("{{ literal }}", ""),
        ("{{ kubeconfig }}", None),
        ("x-{{ run_id }}", None),
        ("{{ lab }}", None),
        ("{{ range(count) | join(run_id) if inventory_hostname else lookup('env', 'X') }}", None),
    ],
)
def test_what_nothing_defines_is_found_through_settings_and_variables(value: Any, expected: str | None) -> None:
    assert first_undefined_name(value, SETTINGS, VARIABLES) == expected


def test_filters_and_tests_of_ansible_are_no_names() -> None:
    assert names_in_template("{{ (count | regex_search('x')) is subset(other) }}{% set own = 1 %}{{ own }}") == {
        "count",
        "other",
    }


def test_a_text_with_a_header_of_ansible_is_a_template() -> None:
    header = "#jinja2: variable_start_string:'<<', variable_end_string:'>>'\n<< lookup('pipe', 'id') >>"
    assert has_template([header]) and isinstance(mark_unsafe(header, lambda _text: False), UnsafeText)
    assert not has_template(f"x {header}")
