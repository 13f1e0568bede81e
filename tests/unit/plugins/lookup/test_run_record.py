# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup of a run's record names the file that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.perfscale.seatrial.plugins.lookup import run_record


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"id: x\nfoo: [1, 2\nbar: : :\n", "not readable as YAML: "),
        (b"id: x\n\tfoo: 1\n", "not readable as YAML: "),
        (b"id: \xe4\n", "not readable as YAML: it is not text in UTF-8"),
        (b"- a\n", "not a YAML dictionary"),
    ],
)
def test_a_record_that_is_no_dictionary_is_told_with_its_file(tmp_path: Path, content: bytes, error: str) -> None:
    (tmp_path / "run.yml").write_bytes(content)
    with pytest.raises(AnsibleLookupError) as told:
        run_record.LookupModule().run([str(tmp_path)])
    assert f"{tmp_path}/run.yml: {error}" in str(told.value)


def test_a_missing_or_empty_record_is_empty(tmp_path: Path) -> None:
    assert run_record.LookupModule().run([str(tmp_path)]) == [{}]
    (tmp_path / "run.yml").write_text("")
    assert run_record.LookupModule().run([str(tmp_path)]) == [{}]
    (tmp_path / "run.yml").write_text("project: a\n")
    assert run_record.LookupModule().run([str(tmp_path)]) == [{"project": "a"}]
