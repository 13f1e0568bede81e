# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles are checked before a cluster is acquired, and say what a cluster is that none matches."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import KINDS
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import presets_from_variables
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsError

CLUSTER = {"api_host": "api.lab.example.com", "kind": "metal", "node_names": ["w1"]}


@pytest.mark.parametrize("key", ["api.lab.example.com", "metal", "w1"])
def test_a_profile_matches_by_host_kind_or_node(key: str) -> None:
    assert presets_from_variables.matching_profiles({key: "gpu,keep", "light": "x"}, CLUSTER) == {key: ["gpu", "keep"]}


def test_without_a_match_the_kinds_are_listed() -> None:
    (line,) = presets_from_variables.describe_cluster_without_profile({"metl": "gpu"}, CLUSTER)
    assert "its kind is metal (did you mean 'metal'?)" in line
    assert all(kind in line for kind in KINDS)
    assert presets_from_variables.describe_cluster_without_profile({}, CLUSTER) == []


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ({"metal": ["gpuu"]}, r"cluster_profiles, metal: no project has a preset 'gpuu' \(did you mean 'gpu'\?\)"),
        ({"metal": "gang"}, r"cluster_profiles, metal: no project has a preset 'gang' \(it is now 'light'\)"),
        (["metal"], "cluster_profiles needs a dictionary"),
        ({"metal": 5}, "expected a name or a list of names"),
    ],
)
def test_wrong_profiles_are_refused(profiles: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        presets_from_variables.check_cluster_profiles(profiles, {"gpu", "keep", "light"})
