# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What actions show on the terminal, whatever servers and run directories have written."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import terminal_output

PLUGINS = Path(__file__).parents[5] / "plugins"


def test_a_line_has_no_characters_that_control_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    # Not the methods of the class: other tests may have set them at the one object that Ansible has.
    screen = SimpleNamespace(display=lambda line, **_more: shown.append(line), warning=shown.append)
    monkeypatch.setattr(terminal_output, "Display", lambda: screen)
    terminal_output.show_line("t1128 \x1b]52;c;eA==\x07\u202e held", stderr=True)
    terminal_output.show_warning("t1128 \x1b]52;c;eA==\x07\u202e held")
    assert shown == ["t1128 \u241b]52;c;eA==\u2407\ufffd held"] * 2


def test_no_action_shows_a_line_in_another_way() -> None:
    sources = [path for folder in ("action", "plugin_utils") for path in sorted((PLUGINS / folder).rglob("*.py"))]
    direct = [
        path.name
        for path in sources
        if re.search(r"Display\(\)\.(display|warning)\b", path.read_text(encoding="utf-8"))
    ]
    assert direct == ["terminal_output.py"]
