# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dump of metrics in a run directory may come from anybody. What is read from a server: the integration tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import metrics_dump


def test_a_dump_that_would_fill_the_disk_is_refused_before_a_program_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prometheus", "promtool"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    dump = tmp_path / metrics_dump.FILE
    dump.write_bytes(gzip.compress(b"\n" * 5000))
    (tmp_path / metrics_dump.INDEX).write_text(json.dumps({"sha256": files.sha256_of(dump), "interval": 1}))
    monkeypatch.setattr(metrics_dump, "MOST_UNPACKED", 4999)
    with (
        pytest.raises(DataError, match="it unpacks to more than"),
        metrics_dump.run_prometheus_on_dump(str(tmp_path), str(tmp_path / "prometheus")),
    ):
        pass
    assert not (tmp_path / "started").exists() and not list(tmp_path.glob(".metrics-*"))
