# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that failures hit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from failing_cluster import NodeServer
from scripted_server import ScriptedServer


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodeServer]:
    with ScriptedServer(lambda asked: None) as server:
        found = NodeServer(server, tmp_path)
        yield found
        found.client.close()
