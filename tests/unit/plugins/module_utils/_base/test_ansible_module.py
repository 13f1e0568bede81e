# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends: its result, and its warnings in the way that ansible-core keeps."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module


class EndingModule:
    """Records how it is ended; ansible-core deprecates that exit_json gets warnings."""

    params: dict[str, Any] = {}

    def __init__(self) -> None:
        self.warned: list[str] = []
        self.result: dict[str, Any] = {}

    def warn(self, warning: str) -> None:
        self.warned.append(warning)

    def exit_json(self, **result: Any) -> None:
        self.result = result


def test_warnings_of_a_result_are_given_one_by_one() -> None:
    module = EndingModule()
    ansible_module.run(module, lambda step: {"changed": True, "warnings": ["the first", "the second"]})
    assert (module.warned, module.result) == (["the first", "the second"], {"changed": True})
