"""What a release checks by itself; the whole of it is `make release-check`."""

from __future__ import annotations

import pytest
import release_check
from common import ROOT


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("plugins/action/_export.py action-plugin-docs # several modules use it", True),
        ("plugins/action/_export.py action-plugin-docs", False),
        ("plugins/action/_export.py action-plugin-docs # ", False),
        ("plugins/modules/run_open.py validate-modules:doc-default-does-not-match-spec # because", False),
    ],
)
def test_an_ignored_sanity_test_needs_a_reason_and_a_permission(line: str, fine: bool) -> None:
    assert release_check.unexplained(f"{line}\n") == ([] if fine else [line])


def test_init_files_are_empty_as_sanity_of_2_16_demands() -> None:
    assert [path for path in (ROOT / "plugins").rglob("__init__.py") if path.stat().st_size] == []
