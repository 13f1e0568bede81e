# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong inside a dictionary or a list is named with its place, its value and the nearest key."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import (
    coerce_to_declared_type,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Setting
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsError

LIMITS = {"ttft": {"type": "float"}, "way": {"type": "str", "choices": ["short", "long"]}}


def setting(**spec: Any) -> Setting:
    return Setting("mine", "role", spec, None)


OBJECTIVE = setting(type="dict", options=LIMITS)
PATIENCE = Setting("mine", "role", {"type": "float", "description": ["A time, in seconds."]}, (1, 60))
MODELS = setting(
    type="list", elements="dict", options={"name": {"type": "str", "required": True}, "slo": OBJECTIVE.spec}
)


@pytest.mark.parametrize(
    ("of", "value", "message"),
    [
        (OBJECTIVE, {"tftt": 1}, "-e: mine: unknown key 'tftt' (did you mean 'ttft'?); keys: ttft, way"),
        (OBJECTIVE, {"ttft": "200 ms"}, '-e: mine.ttft is a number, and "200 ms" is not'),
        (OBJECTIVE, {"way": "shrt"}, "-e: mine.way can't be 'shrt' (did you mean 'short'?); it is one of short, long"),
        (MODELS, [{"name": "a"}, "b"], '-e: mine[1] is a dictionary, and "b" is not'),
        (MODELS, [{"name": "a", "weigth": 1}], "-e: mine[0]: unknown key 'weigth'; keys: name, slo"),
        (MODELS, [{"name": "a", "slo": {"ttft": []}}], "-e: mine[0].slo.ttft is a number, and [] is not"),
        (PATIENCE, "200ms", '-e: mine is a number of seconds, and "200ms" is not'),
        (PATIENCE, 90000.5, "-e: mine is 90000.5 seconds, and it must be 1 to 60 seconds"),
        (
            setting(type="dict", options={"ttft": PATIENCE.spec}),
            {"ttft": "0,2"},
            '-e: mine.ttft is a number of seconds, and "0,2" is not',
        ),
        (setting(type="int"), "inf", '-e: mine is a whole number, and "inf" is not'),
        (setting(type="list", elements="int"), ["-inf"], '-e: mine is a list, and ["-inf"] is not'),
        (MODELS, [{}], "-e: mine: missing required arguments: name found in mine"),
        (setting(type="list", elements="int"), [1, "two"], '-e: mine[1] is a whole number, and "two" is not'),
    ],
)
def test_a_wrong_part_is_named_with_its_place(of: Setting, value: Any, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        coerce_to_declared_type(of, value, "-e", "mine")
    assert str(caught.value) == message


@pytest.mark.parametrize(("of", "value"), [(OBJECTIVE, {"ttft": "0.2"}), (MODELS, [{"name": "a", "slo": None}])])
def test_right_parts_are_accepted(of: Setting, value: Any) -> None:
    assert coerce_to_declared_type(of, value, "-e")
