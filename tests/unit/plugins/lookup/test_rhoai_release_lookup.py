# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lookup of versions of OpenShift AI says of wrong terms."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.perfscale.seatrial.plugins.lookup import rhoai_release


@pytest.mark.parametrize(
    ("term", "error"),
    [
        ({"components": []}, "version is missing"),
        ("3", "version is missing"),
        ({"version": "3", "componets": []}, "did you mean 'components'"),
    ],
)
def test_a_wrong_term_is_told_in_one_sentence(term: object, error: str) -> None:
    with pytest.raises(AnsibleLookupError, match=error):
        rhoai_release.LookupModule().run([term])  # type: ignore[list-item]


def test_a_version_may_be_a_number() -> None:
    (found,) = rhoai_release.LookupModule().run([{"version": 3}])
    assert found["major"] == "3"
