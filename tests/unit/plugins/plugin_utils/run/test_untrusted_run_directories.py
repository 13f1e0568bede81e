# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a run directory has is data: no template of it is rendered, and no program that it names is run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.template import Templar, trust_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record, settings_from_run_directory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import setting_templates
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext
from settings_sessions import LOADER, PRESETS, ended, lines, load, opened, session

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


def test_a_template_in_extra_vars_is_kept_for_a_later_session(tmp_path: Path) -> None:
    directory = opened(tmp_path, extra={"fine_tuning_count": trust_as_template("{{ 2 + 2 }}")})
    assert load(directory / "settings.yml")["fine_tuning_count"] == 4
    assert "{{ 2 + 2 }}" in (directory / "request.yml").read_text()
    session(tmp_path, ["cluster"], {"run_dir": str(directory)}).begin()
    assert load(directory / "settings.yml")["fine_tuning_count"] == 4


TRAP = "{{ lookup('ansible.builtin.pipe', 'touch %s; echo 3') }}"


def poisoned(directory: Path, name: str, text: Any, *files: str) -> None:
    """Let a stranger write a value into files of a run."""
    for path in (directory / file for file in files):
        document = setting_templates.load_yaml_with_unsafe(path)
        values = document["layers"][-1]["values"] if file_is_request(path) else document
        values[name] = text
        path.write_text(setting_templates.dump_yaml_with_unsafe(document))


def file_is_request(path: Path) -> bool:
    return path.name == "request.yml"


@pytest.mark.parametrize("tags", [["settings"], ["report"], ["cleanup", "release"], ["cluster"]])
@pytest.mark.parametrize("files", [("request.yml",), ("request.yml", "settings.yml", "points/001/settings.yml")])
def test_a_template_that_only_the_run_directory_has_is_never_executed(
    tmp_path: Path, tags: list[str], files: tuple[str, ...]
) -> None:
    directory, proof = opened(tmp_path), tmp_path / "proof"
    ended(directory, p001="passed")
    poisoned(directory, "fine_tuning_count", TRAP % proof, *files)
    later = session(tmp_path, tags, {"run_dir": str(directory)})
    if tags == ["cluster"] and len(files) > 1:
        with pytest.raises(InputError, match="which no role, preset or inventory and no -e of this session has"):
            later.begin()
        later = session(tmp_path, tags, {"run_dir": str(directory), "fine_tuning_count": 3})
    later.begin()
    assert not proof.exists()
    for path in [directory / "settings.yml", directory / "points" / "001" / "settings.yml"]:
        value = setting_templates.load_yaml_with_unsafe(path)["fine_tuning_count"]
        assert isinstance(value, int | setting_templates.UnsafeText) or tags == ["settings"], "Ansible would render it"
    if tags != ["settings"] and len(files) == 1:
        assert load(directory / "settings.yml")["fine_tuning_count"] == 3
        assert any("fine_tuning_count keeps its value" in line for line in lines(later))


def test_a_template_of_a_preset_stays_one_and_another_setting_can_not_use_it(tmp_path: Path) -> None:
    text = trust_as_template("{{ fine_tuning_count * 2 }}")
    presets = {**PRESETS, "small": {**PRESETS["small"], "fine_tuning_pod_count": text}}
    directory = opened(tmp_path, fine_tuning_presets=presets)
    assert load(directory / "settings.yml")["fine_tuning_pod_count"] == 6
    poisoned(directory, "fine_tuning_image", str(text), "request.yml")
    extra = {"run_dir": str(directory), "fine_tuning_count": 5}
    later = session(tmp_path, ["cleanup"], extra, fine_tuning_presets=presets)
    later.begin()
    settings = load(directory / "settings.yml")
    assert settings["fine_tuning_pod_count"] == 10
    assert settings["fine_tuning_image"] != "10"


def test_a_template_that_waits_for_the_run_is_given_again_by_the_give_back_command(tmp_path: Path) -> None:
    given = {"fine_tuning_namespace": trust_as_template("ft-{{ run_id }}")}
    directory = opened(tmp_path, extra=given)
    words = shlex.split((directory / "GIVE_BACK").read_text())
    assert json.dumps({"fine_tuning_namespace": "ft-{{ run_id }}"}) in words
    with pytest.raises(InputError, match="give fine_tuning_namespace again, by -e"):
        session(tmp_path, ["cluster"], {"run_dir": str(directory)}).begin()
    later = session(tmp_path, ["cleanup"], {"run_dir": str(directory)})
    later.begin()
    assert any("fine_tuning_namespace is left out" in line for line in lines(later))
    session(tmp_path, ["cluster"], {"run_dir": str(directory), **given}).begin()
    assert "ft-{{ run_id }}" in (directory / "settings.yml").read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fine_tuning_gone", 1),
        ("fine_tuning_logs", "most"),
        ("matrix", {"fine_tuning_gone": [1, 2]}),
        ("matrix.fine_tuning_gone", [1, 2]),
    ],
)
def test_a_run_of_an_earlier_version_is_given_back_without_what_is_refused_now(
    tmp_path: Path, name: str, value: Any
) -> None:
    directory = opened(tmp_path)
    document = setting_templates.load_yaml_with_unsafe(directory / "request.yml")
    next(layer for layer in document["layers"] if layer["kind"] == "extra")["values"][name] = value
    request = setting_templates.dump_yaml_with_unsafe(document)
    (directory / "request.yml").write_text(request)
    for tags in (["cluster"], ["cleanup", "report"]):
        with pytest.raises(InputError):
            session(tmp_path, tags, {"run_dir": str(directory)}).begin()
    later = session(tmp_path, ["cleanup", "release"], {"run_dir": str(directory)})
    later.begin()
    [line] = [line for line in lines(later) if "left out, because this session only gives back" in line]
    assert name.removeprefix("matrix.") in line or "fine_tuning_gone" in line
    assert (directory / "request.yml").read_text() == request and (directory / "points" / "001").is_dir()
    assert "fine_tuning_gone" not in load(directory / "settings.yml")
    with pytest.raises(InputError, match="fine_tuning_logs"):
        session(tmp_path, ["release"], {"run_dir": str(directory), "fine_tuning_logs": "some"}).begin()


@pytest.mark.parametrize("tags", [["cluster"], ["cleanup", "release"], ["report"]])
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("rehearsal_components", ["trainer", "/tmp/mine"], "rehearsal_components has '/tmp/mine'"),
        ("rehearsal_binaries", {"etcd": "/tmp/etcd"}, "rehearsal_binaries has 'etcd'"),
        ("cluster_installer", "/tmp/installer", "cluster_installer has '/tmp/installer'"),
        ("matrix", {"rehearsal_sources.kueue": ["/tmp/a", "/tmp/b"]}, "matrix has '/tmp/a'"),
        ("matrix_points", [{"rehearsal_sources": {"kueue": "/tmp/b"}}], "matrix_points has 'kueue'"),
        ('["rehearsal_binaries_dir"]', "/tmp/bin", "has '/tmp/bin'"),
        ("['rehearsal_sources'].kueue", "/tmp/a", "has '/tmp/a'"),
        ('matrix["rehearsal_sources"]', [{"kueue": "/tmp/a"}], "has 'kueue'"),
        ("matrix", {'["rehearsal_sources"].kueue': ["/tmp/a"]}, "matrix has '/tmp/a'"),
        ("bisect", {"values": ["/tmp/a", "/tmp/b"]}, "bisect has '/tmp/a'"),
    ],
)
def test_a_program_that_only_the_run_directory_names_is_not_run(
    tmp_path: Path, tags: list[str], name: str, value: Any, shown: str
) -> None:
    directory = opened(tmp_path)
    poisoned(directory, name, value, "request.yml")
    with pytest.raises(InputError, match=re.escape(shown)) as refused:
        session(tmp_path, tags, {"run_dir": str(directory)}).begin()
    assert f"give {name} again by -e" in str(refused.value)


@pytest.mark.parametrize("tags", [["cluster"], ["cleanup", "release"]])
def test_a_program_of_the_earlier_session_is_not_run_in_place_of_a_template_that_names_one_of_ours(
    tmp_path: Path, tags: list[str]
) -> None:
    """The template is known, but of another setting: a value of settings.yml, a file of the stranger, replaces it."""
    directory = opened(tmp_path)
    default = SettingsContext.of("fine_tuning", {}, {}, LOADER, Templar(loader=LOADER)).defaults["rehearsal_cache_dir"]
    poisoned(directory, "rehearsal_binaries_dir", str(default), "request.yml")
    poisoned(directory, "rehearsal_binaries_dir", "/tmp/bin", "settings.yml")
    with pytest.raises(InputError, match="rehearsal_binaries_dir has '/tmp/bin'"):
        session(tmp_path, tags, {"run_dir": str(directory)}).begin()


def test_the_folder_of_a_kind_that_only_the_run_directory_names_is_not_built(tmp_path: Path) -> None:
    directory, kind = opened(tmp_path), tmp_path / "mine"
    kind.mkdir()
    (kind / "kind.yml").write_text("component: /tmp/x")
    poisoned(directory, "sample_stages", [str(kind)], "request.yml")
    with pytest.raises(InputError, match="sample_stages has"):
        session(tmp_path, ["cluster"], {"run_dir": str(directory)}).begin()


def test_the_rest_of_a_bisection_is_a_strangers_though_a_part_of_it_is_given(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    poisoned(directory, "bisect", {"over": "rehearsal_sources.kueue", "values": ["/tmp/a", "/tmp/b"]}, "request.yml")
    with pytest.raises(InputError, match="bisect has '/tmp/a'"):
        session(tmp_path, ["cluster"], {"run_dir": str(directory), "bisect": {"budget": "2h"}}).begin()


def test_a_further_attempt_takes_neither_programs_nor_other_variables_from_the_file_of_its_point(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    ended(directory, p001="passed")
    for name, value in (("ansible_python_interpreter", "/tmp/x"), ("rehearsal_sources", {"kueue": "/tmp/a"})):
        poisoned(directory, name, value, "points/001/settings.yml")
    session(tmp_path, ["cluster", "prepare", "test"], {"run_dir": str(directory)}).begin()
    settings = load(directory / "points" / "001" / "settings.yml")
    assert "ansible_python_interpreter" not in settings and settings["rehearsal_sources"] == {}


def test_a_program_of_the_first_session_is_given_again_by_the_give_back_command(tmp_path: Path) -> None:
    given = {"rehearsal_cache_dir": str(tmp_path / "cache")}
    directory = opened(tmp_path, extra=given)
    assert json.dumps(given) in shlex.split((directory / "GIVE_BACK").read_text())
    session(tmp_path, ["cleanup"], {"run_dir": str(directory), **given}).begin()


def run_give_back(tmp_path: Path, directory: Path) -> dict[str, Any]:
    """Begin the session of GIVE_BACK as Ansible does; return its values of ``-e``."""
    words = [word for word in shlex.split((directory / "GIVE_BACK").read_text()) if word.startswith("{")]
    extra = {name: value for word in words for name, value in LOADER.load(trust_as_template(word)).items()}
    session(tmp_path, ["cleanup", "release"], extra).begin()
    return extra


def test_a_text_that_is_no_template_stays_one_beside_a_program_in_the_give_back_command(tmp_path: Path) -> None:
    """A word such as matrix is given again as a whole for a program in it."""
    matrix = {"fine_tuning_image": [TRAP % (tmp_path / "proof")], "cluster_managed_ocm": ["/bin/ocm"]}
    directory = opened(tmp_path, extra={"matrix": matrix})
    assert run_give_back(tmp_path, directory)["matrix"] == matrix
    assert not (tmp_path / "proof").exists()


def test_the_give_back_command_of_a_received_run_has_no_word_of_a_stranger(tmp_path: Path) -> None:
    """What a default names is a known program, so the stranger's matrix is not refused for it."""
    default = SettingsContext.of("fine_tuning", {}, {}, LOADER, Templar(loader=LOADER)).defaults["rehearsal_cache_dir"]
    matrix = {"fine_tuning_image": [TRAP % (tmp_path / "proof")], "cluster_managed_ocm": [str(default)]}
    received = Path(shutil.copytree(opened(tmp_path, extra={"matrix": matrix}), tmp_path / "received"))
    session(tmp_path, ["report"], {"run_dir": str(received), "trust_run_dir": True}).begin()
    assert "matrix" not in run_give_back(tmp_path, received)
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("fine_tuning_count", TRAP, "A template that only a run directory has is not executed"),
        ("ansible_python_interpreter", "/tmp/x", "'ansible_python_interpreter' is not a setting that a run writes"),
    ],
)
def test_a_report_beside_another_session_refuses_the_settings_of_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    directory = opened(tmp_path)
    monkeypatch.setattr(run_record, "find_running_session", lambda _directory: {"pid": 1})
    one = session(tmp_path, ["report"], run_dir=str(directory))
    one.context = SettingsContext(**{**vars(one.context), "extra": {"run_dir": str(directory)}})
    assert one.begin()["beside"]
    poisoned(directory, name, value.replace("%s", str(tmp_path / "proof")), "settings.yml")
    with pytest.raises(InputError, match=words):
        one.begin()
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("before", ["", "\n "])
def test_a_file_in_which_ansible_would_decrypt_texts_of_a_vault_is_refused(tmp_path: Path, before: str) -> None:
    directory = opened(tmp_path)
    path = directory / "settings.yml"
    values = {**load(path), "fine_tuning_name": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3031"}}
    path.write_text(before + json.dumps(values))
    with pytest.raises(DataError, match="settings.yml: it is JSON"):
        settings_from_run_directory.refuse_foreign_values(path, values, {}, None)
