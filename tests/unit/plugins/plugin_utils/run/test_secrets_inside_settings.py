# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets inside settings: in no file of a run and not on the terminal, but given to the roles of the session."""

from __future__ import annotations

import contextlib
import json
import shlex
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    secrets_inside_settings,
    settings_catalogue,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")
LOADER = DataLoader()
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
CANARY = "kanary'\"<&7h"
ENVIRONMENT = {"MY_TOKEN": CANARY, "HTTPS_PROXY": "http://jo:kanary22@proxy:3128", "NCCL_DEBUG": "INFO"}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ansible-local"
    folder.mkdir()
    monkeypatch.setattr("ansible.constants.DEFAULT_LOCAL_TMP", str(folder))


def session(tmp_path: Path, tags: list[str] | None = None, extra: dict[str, Any] | None = None, **more: Any) -> Any:
    given = {"run_artifacts_dir": str(tmp_path / "runs"), **(extra or {})}
    variables = {"playbook_dir": str(tmp_path), "ansible_run_tags": tags or ["all"], **given, **more}
    templar = Templar(loader=LOADER, variables=variables)
    context = SettingsContext.of("fine_tuning", variables, given, LOADER, templar)
    argv = ["/bin/ansible-playbook", "fine_tuning.yml", "-e", json.dumps(given)]
    return SettingsSession(context, PHASES, LOADER, templar, argv, {}, [].append)


def begun(tmp_path: Path, **more: Any) -> Path:
    one = session(tmp_path, **more)
    directory = Path(one.begin()["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))
    shown = "\n".join(one.say.__self__)
    texts = [path.read_text() for path in directory.rglob("*") if path.is_file()]
    for text in [shown, *texts]:
        assert "kanary" not in text
    return directory


@pytest.mark.parametrize(
    "how",
    [
        {"extra": {"fine_tuning_environment": ENVIRONMENT}},
        {"extra": {"overrides": {"fine_tuning_environment": ENVIRONMENT}}},
        {"fine_tuning_presets": {"p": {"fine_tuning_environment": ENVIRONMENT}}, "preset": "p"},
        {"fine_tuning_environment": ENVIRONMENT},
    ],
    ids=["extra", "overrides", "preset", "inventory"],
)
def test_no_file_of_the_run_has_them_and_the_roles_get_them(tmp_path: Path, how: dict[str, Any]) -> None:
    directory = begun(tmp_path, **how)
    masked = yaml.safe_load((directory / "settings.yml").read_text())["fine_tuning_environment"]
    assert masked == {"MY_TOKEN": "<secret>", "HTTPS_PROXY": "<secret>", "NCCL_DEBUG": "INFO"}
    secrets = {name: ENVIRONMENT[name] for name in ("MY_TOKEN", "HTTPS_PROXY")}
    assert secrets_inside_settings.unmasked_secrets_of_setting("fine_tuning_environment", masked) == secrets
    assert secrets_inside_settings.unmasked_secrets_of_setting("fine_tuning_environment", ENVIRONMENT) == secrets
    assert set(secrets_inside_settings.kept_secret_entries().values()) == set(secrets.values())


def test_the_command_is_recorded_without_them_however_it_is_quoted(tmp_path: Path) -> None:
    directory = begun(tmp_path, extra={"fine_tuning_environment": ENVIRONMENT})
    command = run_record.read_record(directory)["command"]
    assert json.loads(shlex.split(command)[3])["fine_tuning_environment"]["NCCL_DEBUG"] == "INFO"


def test_a_session_that_needs_them_again_says_so_and_one_that_gives_back_does_not(tmp_path: Path) -> None:
    directory = begun(tmp_path, extra={"fine_tuning_environment": ENVIRONMENT})
    again = {"run_dir": str(directory)}
    session(tmp_path, ["cleanup", "release"], again).begin()
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))
    with pytest.raises(InputError, match="fine_tuning_environment.MY_TOKEN is a secret, .* give .* again"):
        session(tmp_path, ["cluster", "prepare", "test"], again).begin()
    begun(tmp_path, tags=["cluster", "prepare", "test"], extra={**again, "fine_tuning_environment": ENVIRONMENT})
    assert secrets_inside_settings.kept_secret_entries()["fine_tuning_environment.MY_TOKEN"] == CANARY


@pytest.mark.parametrize(
    "extra",
    [
        {"fine_tuning_environment": {**ENVIRONMENT, "RUN": trust_as_template("{{ run_id }}")}},
        {"matrix": {"fine_tuning_environment": [ENVIRONMENT], "cluster_managed_ocm": ["/bin/ocm"]}},
    ],
)
def test_a_value_that_the_give_back_command_gives_again_has_none(tmp_path: Path, extra: dict[str, Any]) -> None:
    directory = begun(tmp_path, extra=extra)
    again = json.loads(shlex.split((directory / "GIVE_BACK").read_text())[-5])
    assert again.keys() == extra.keys() and "<secret>" in json.dumps(again)
    session(tmp_path, ["cleanup", "release"], {"run_dir": str(directory), **again}).begin()


def test_the_command_is_recorded_without_those_that_another_value_replaces(tmp_path: Path) -> None:
    loses = {"fine_tuning_environment": {"HF_TOKEN_V2": CANARY}}
    directory = begun(tmp_path, extra={"overrides": loses, "fine_tuning_environment": {"HF_TOKEN_V2": "other-kanary"}})
    assert "HF_TOKEN_V2" in run_record.read_record(directory)["command"]


@pytest.mark.parametrize(
    "more",
    [
        {"extra": {"fine_tuning_environment": {}, "matrix": {"fine_tuning_environment": [{"HF_TOKEN_V2": CANARY}]}}},
        {"extra": {"matrix": {"fine_tuning_environment": {"HF_TOKEN_V2": CANARY}}}},
        {"matrix": {"fine_tuning_environment": {"HF_TOKEN_V2": CANARY}}},
    ],
)
def test_an_error_shows_none(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="matrix.*<secret>") as refused:
        session(tmp_path, **more).begin()
    assert "kanary" not in str(refused.value)


@pytest.mark.parametrize(
    "more",
    [
        {"matrix": {"fine_tuning_environment": {"HF_TOKEN_V2": CANARY}}},
        {
            "overrides": {
                "fine_tuning_environment.HF_TOKEN_V2.x": CANARY,
                "fine_tuning_environment": {"MY_TOKEN": CANARY},
            }
        },
    ],
)
def test_the_errors_of_settings_show_none_to_the_doctor_and_to_ci(tmp_path: Path, more: dict[str, Any]) -> None:
    """Neither do their causes, which -vvv shows."""
    context = session(tmp_path, **more).context
    with pytest.raises(InputError) as refused:
        context.effective(context.request())
    assert "kanary" not in str(refused.value)
    assert "kanary" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(InputError) as refused:
        session(tmp_path, **more).begin()
    assert "kanary" not in "".join(traceback.format_exception(refused.value))


def test_a_template_in_an_inventory_stays_for_later_sessions(tmp_path: Path) -> None:
    template = trust_as_template("{{ vault_token }}")
    known = {"vault_token": CANARY, "fine_tuning_environment": {"MY_TOKEN": template}}
    directory = begun(tmp_path, **known)
    begun(tmp_path, tags=["cluster", "prepare", "test"], extra={"run_dir": str(directory)}, **known)
    assert secrets_inside_settings.kept_secret_entries()["fine_tuning_environment.MY_TOKEN"] == CANARY


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fine_tuning_annotations", {"example.com/api-key": CANARY}),
        ("fine_tuning_node_selector", {"password": CANARY}),
        ("fine_tuning_tolerations", [{"key": "x", "secret": CANARY}]),
    ],
)
def test_a_setting_that_takes_none_is_refused_before_anything_is_written(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name}.* is a secret by its name"):
        session(tmp_path, extra={name: value}).begin()
    assert not (tmp_path / "runs").exists()


#: A name that is a secret only because the setting holds environment variables.
ODD = {"HF_TOKEN_V2": CANARY}


@pytest.mark.parametrize(
    "more",
    [
        {"extra": {"matrix": {"fine_tuning_environment": [{**ODD, "A": "1"}, {**ODD, "A": "2"}]}}},
        {
            "fine_tuning_environment": {"HF_TOKEN_V2": "x"},
            "extra": {"matrix": {"fine_tuning_environment.HF_TOKEN_V2": [CANARY]}},
        },
        {"extra": {"matrix_points": [{"fine_tuning_environment": ODD}]}},
        {
            "fine_tuning_presets": {"p": {"matrix": {"fine_tuning_environment": [{"A": "1"}]}}},
            "preset": "p",
            "extra": {"overrides": {"matrix.fine_tuning_environment": [ODD]}},
        },
        {
            "fine_tuning_environment": {"HF_TOKEN_V2": "x"},
            "extra": {"overrides": {'fine_tuning_environment["HF_TOKEN_V2"]': CANARY}},
        },
        {
            "fine_tuning_presets": {"p": {"matrix_points": [{"fine_tuning_environment": {"HF_TOKEN_V2": "x"}}]}},
            "preset": "p",
            "extra": {"overrides": {"matrix_points[0].fine_tuning_environment.HF_TOKEN_V2": CANARY}},
        },
        {
            "fine_tuning_presets": {"p": {"matrix_points": [{"fine_tuning_count": 1}]}},
            "preset": "p",
            "extra": {"overrides": {"matrix_points[0]": {"fine_tuning_environment": ODD}}},
        },
        {
            "fine_tuning_presets": {"p": {"matrix": {"fine_tuning_environment": [{"A": "1"}]}}},
            "preset": "p",
            "extra": {"overrides": {"matrix.fine_tuning_environment[0]": ODD}},
        },
    ],
    ids=[
        "matrix",
        "dotted key",
        "matrix_points",
        "overrides of matrix",
        "quoted key",
        "key in a point",
        "point",
        "element of matrix",
    ],
)
def test_a_secret_in_a_matrix_or_by_a_quoted_key_is_in_no_file_either(tmp_path: Path, more: dict[str, Any]) -> None:
    begun(tmp_path, **more)
    assert secrets_inside_settings.kept_secret_entries() == {"fine_tuning_environment.HF_TOKEN_V2": CANARY}


@pytest.mark.parametrize(
    "values",
    [
        {"matrix": {"fine_tuning_annotations": [{"a": "b"}, {"api-key": CANARY}]}},
        {"matrix_points": [{"fine_tuning_node_selector": {"password": CANARY}}]},
    ],
)
def test_a_point_that_sets_a_secret_where_none_is_taken_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is a secret by its name"):
        session(tmp_path, extra=values).begin()
    assert not (tmp_path / "runs").exists()


def test_a_secret_that_differs_between_points_is_refused(tmp_path: Path) -> None:
    values = [{"MY_TOKEN": "kanary-1"}, {"MY_TOKEN": "kanary-2"}]
    with pytest.raises(InputError, match="its secrets .MY_TOKEN. must be the same for all points"):
        session(tmp_path, extra={"matrix": {"fine_tuning_environment": values}}).begin()


CATALOGUE = settings_catalogue.load_catalogue(Path(__file__).parents[5])
HUB = "hf_" + "k4" * 17
BY_FORM = "is a secret by its form, .* Put it into a Secret"
BY_NAME = "is a secret by its name, .*Use serving_api_key, which is sent as a bearer token"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("serving_headers", {"authorization": "Bearer abc"}, f"serving_headers.authorization {BY_NAME}"),
        ("serving_headers", {"X-API-Key": "kanary"}, f"serving_headers.X-API-Key {BY_NAME}"),
        ("serving_headers", {"Cookie": "kanary"}, f"serving_headers.Cookie {BY_NAME}"),
        ("serving_headers", {"A": f"Bearer {HUB}"}, "serving_headers.A is a secret by its form, .*serving_api_key"),
        ("serving_command", ["serve", f"--key={HUB}"], rf"serving_command\[1\] {BY_FORM}"),
        ("serving_environment", {"HF": {"secretKeyRef": {"name": HUB}}}, f"HF.secretKeyRef.name {BY_FORM}"),
        ("users_environment", {"HF_AUTH": HUB}, f"users_environment.HF_AUTH {BY_FORM}"),
        ("users_environment", {"HTTPS_PROXY": "http://jo:kanary22@proxy"}, f"HTTPS_PROXY {BY_FORM}"),
    ],
)
def test_a_value_that_files_would_have_masked_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        secrets_inside_settings.secrets_in_settings(CATALOGUE, {name: value}, [], used=False)
    assert "kanary" not in str(refused.value) and HUB not in str(refused.value)


def test_a_masked_text_inside_a_value_is_refused_only_if_it_is_used() -> None:
    settings = {"serving_command": ["serve", "--key=<secret>"]}
    assert secrets_inside_settings.secrets_in_settings(CATALOGUE, settings, [], used=False) == {}
    with pytest.raises(InputError, match=r"serving_command.1. is a secret, which no file of the run has: give serving"):
        secrets_inside_settings.secrets_in_settings(CATALOGUE, settings, [settings], used=True)


def test_secrets_of_servers_are_accepted_beside_references_to_secrets() -> None:
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    settings = {"serving_environment": {"HF_AUTH": HUB, "HF_TOKEN": source, "A": 1}, "serving_headers": {"A": "b"}}
    found = secrets_inside_settings.secrets_in_settings(CATALOGUE, settings, [settings], used=True)
    assert found == {"serving_environment": {"HF_AUTH": HUB}}


def test_no_preset_of_the_collection_has_any() -> None:
    root = Path(__file__).parents[5]
    paths = sorted((root / "group_vars" / "all").glob("*.yml"))
    assert paths
    for path in paths:
        for presets in yaml.safe_load(path.read_text()).values():
            if isinstance(presets, dict):
                for name, preset in presets.items():
                    if isinstance(preset, dict):
                        assert secrets_inside_settings.mask_settings(preset) == preset, (path.name, name)


@pytest.mark.parametrize("name", ["ansible_become_password", "ansible_ssh_pass", "vault_token", "lab_pw", "my_api_key"])
def test_secret_variables_that_are_no_settings_are_masked_in_the_command(tmp_path: Path, name: str) -> None:
    directory = begun(tmp_path, extra={name: "kanary42", "inner": {name: "kanary43"}})
    assert "<secret>" in yaml.safe_load((directory / "run.yml").read_text())["command"]


@pytest.mark.parametrize(
    "value", [f"MY_TOKEN={CANARY}", [{"name": "MY_TOKEN", "value": CANARY}], [CANARY], f"MY_TOKEN: {CANARY}"]
)
def test_environment_variables_of_a_wrong_form_are_refused_without_their_values(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match="fine_tuning_environment is a dictionary") as refused:
        session(tmp_path, extra={"fine_tuning_environment": value}).begin()
    assert "kanary" not in str(refused.value)


@pytest.mark.parametrize("value", [[CANARY], {"inner": CANARY}])
def test_a_list_with_the_name_of_a_secret_is_masked(tmp_path: Path, value: object) -> None:
    masked = secrets_inside_settings.mask_setting("fine_tuning_environment", {"HUB_API_KEY": value, "PATHS": ["a"]})
    assert "kanary" not in str(masked) and masked["PATHS"] == ["a"]


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize(
    "name", ["secrets_dir", "cluster_pull_secret_file", "rehearsal_data_dir", "cluster_kubeconfig"]
)
def test_no_name_of_a_folder_is_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, relative: bool
) -> None:
    folder = tmp_path / "{{ lookup('pipe', 'touch rendered') }}"
    (folder / "given").mkdir(parents=True)
    monkeypatch.chdir(folder)
    one = session(tmp_path, tags=["lease"], extra={name: "given" if relative else str(folder / "given")})
    with contextlib.suppress(InputError):  # a folder is no kubeconfig
        one.begin()
    assert not list(tmp_path.rglob("rendered"))
