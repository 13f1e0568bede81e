# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths that a user gives are relative to where the user stands, for modules and for later sessions too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.action.rehearsal_cluster import ActionModule
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    convert_setting_values,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import (
    coerce_to_declared_type,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue, Setting

ONE = Setting("load_kubeconfig", "load", {"type": "path"})
SEVERAL = Setting("load_files", "load", {"type": "list", "elements": "path"})
NAME = Setting("load_name", "load", {"type": "str"})
CATALOGUE = Catalogue({one.name: one for one in (ONE, SEVERAL, NAME)}, ("load",))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a/b", "{here}/a/b"),
        ("./a/../b", "{here}/b"),
        ("~/b", "/home/somebody/b"),
        ("$HOME/b", "/home/somebody/b"),
        ("/a", "/a"),
        ("", ""),
        ("s3://bucket/run", "s3://bucket/run"),
        ("https://host/run.tar", "https://host/run.tar"),
        ("in-cluster", "in-cluster"),  # stands for the service account of the pod
        ("opensearch", "opensearch"),  # stands for the index of the export
        ("./opensearch", "{here}/opensearch"),
    ],
)
def test_a_path_is_relative_to_where_the_user_stands(given: str, meant: str, here: Path) -> None:
    assert convert_setting_values.absolute_path(given) == meant.format(here=here)


def test_a_setting_keeps_its_path_for_a_session_that_is_called_from_another_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"load_kubeconfig": "mine", "load_files": ["a", "/b"], "load_name": "mine"}
    layer = settings_from_ansible.extra_layer(given, CATALOGUE, {})
    monkeypatch.chdir("/")
    assert layer.values == {"load_kubeconfig": f"{here}/mine", "load_files": [f"{here}/a", "/b"], "load_name": "mine"}


def test_a_template_of_a_path_is_made_absolute_when_it_is_rendered(here: Path) -> None:
    text = "{{ lab }}/kubeconfig"
    assert settings_from_ansible.with_absolute_paths({"load_kubeconfig": text}, CATALOGUE) == {"load_kubeconfig": text}
    assert coerce_to_declared_type(ONE, "lab/kubeconfig", "-e") == f"{here}/lab/kubeconfig"
    assert coerce_to_declared_type(SEVERAL, ["a"], "-e") == [f"{here}/a"]
    assert coerce_to_declared_type(NAME, "a", "-e") == "a"


def test_the_rehearsal_cluster_gets_the_folders_that_its_user_meant(here: Path) -> None:
    given = {"name": "x", "data_dir": "data", "binaries_dir": "", "binaries": {"etcd": "bin/etcd"}}
    found = ActionModule.prepare(object.__new__(ActionModule), given, {})
    found.pop("components_dir")
    known = {"data_dir": f"{here}/data", "binaries": {"etcd": f"{here}/bin/etcd"}, "user_pid": os.getppid()}
    assert found == {**given, **known}
