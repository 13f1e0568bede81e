# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be set from outside: the declarations of all roles, and what they never permit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    dotted_paths,
    settings_allowed_in_pull_requests,
    settings_catalogue,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import RESERVED
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[5]
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
OUTSIDE = settings_allowed_in_pull_requests.load_role_declarations(ROOT)


def refusal(key: str, value: Any = 1, outside: settings_allowed_in_pull_requests.OutsideSettings = OUTSIDE) -> str:
    with pytest.raises(InputError) as caught:
        outside.check({key: value}, {key: "/var in line 1 of the comment"}, CATALOGUE)
    assert str(caught.value).startswith("/var in line 1 of the comment: ")
    return str(caught.value)


def test_only_known_settings_that_are_no_secrets_and_no_paths_are_declared() -> None:
    for path in (ROOT / "roles").glob("*/meta/outside.yml"):
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(declared) <= {"settings", "presets", "effects"}
        listed = [str(dotted_paths.parse_dotted_path(key)[0]) for key in declared.get("settings") or []]
        of_presets, effects = set(declared.get("presets") or []), set(declared.get("effects") or {})
        assert of_presets | effects <= set(CATALOGUE.settings)
        assert not effects & (of_presets | set(listed))
    roots = [str(dotted_paths.parse_dotted_path(key)[0]) for key in OUTSIDE.patterns]
    assert set(roots) <= {*CATALOGUE.settings, *RESERVED}
    assert [name for name in roots if settings_allowed_in_pull_requests.why_never_permitted(name, CATALOGUE)] == []
    assert not {"matrix", "matrix_skip_if", "matrix_points", "bisect"} & set(roots)


def test_what_only_the_lab_decides_is_not_declared() -> None:
    ours = ("cluster_", "quads_", "export_", "results_", "rehearsal_", "metrics_", "node_scaling_", "cleanup_")
    assert [key for key in OUTSIDE.patterns if key.startswith(ours)] == []
    harmless = {"results_answer", "results_fail_on", "results_limits"}
    assert {name for name in OUTSIDE.of_presets if name.startswith(ours)} == harmless


def test_a_preset_may_set_the_number_of_servers_and_a_pull_request_may_not() -> None:
    assert "serving_replicas can't be set from outside" in refusal("serving_replicas", 1000)
    assert "serving_replicas" in OUTSIDE.of_presets


def test_numbers_quantities_and_elements_of_a_declared_setting_pass() -> None:
    values = {
        "fine_tuning_count": 3,
        "fine_tuning_memory": "10Gi",
        "fine_tuning_hyper_parameters.r": 8,
        "matrix": {"fine_tuning_gpus": [1, 2], "fine_tuning_hyper_parameters.r": [4, 8]},
        "pre_cleanup": True,
    }
    OUTSIDE.check(values, {}, CATALOGUE)


@pytest.mark.parametrize("name", [*CATALOGUE.secrets, *(f"{one}_file" for one in CATALOGUE.secrets)])
def test_a_secret_and_its_file_are_refused_and_no_lab_can_permit_them(name: str) -> None:
    assert "can't be set from outside: it is a " in refusal(name)
    with pytest.raises(InputError, match="can't be permitted: it is a "):
        OUTSIDE.permitting({name: ".*"}, CATALOGUE)


@pytest.mark.parametrize("name", [one for one, setting in CATALOGUE.settings.items() if setting.is_path])
def test_a_path_is_refused(name: str) -> None:
    assert "can't be set from outside: it is a path" in refusal(name, "/etc/passwd")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cluster_provider", "existing", "cluster_provider can't be set from outside"),
        ("cluster_exclusive", True, "can't be set from outside"),
        ("results_fail_on", [], "can't be set from outside"),
        ("results_limits", {}, "can't be set from outside"),
        ("fine_tuning_image", "evil", "can't be set from outside"),
        ("fine_tuning_command", ["sh"], "can't be set from outside"),
        ("fine_tuning_host_network", True, "can't be set from outside"),
        ("fine_tuning_hyper_parameters", {"r": 1}, "fine_tuning_hyper_parameters can't be set from outside"),
        ("fine_tuning_hyper_parameters.push_to_hub", True, "can't be set from outside"),
        ("export_s3_url", "s3://mine", "it is a setting of role export"),
        ("ci_users", ["me"], "it is a setting of role ci"),
        ("matrix_skip_if", ["1 == 1"], "matrix_skip_if can't be set from outside"),
        ("bisect", {}, "bisect can't be set from outside"),
        ("matrix", {"cluster_provider": ["existing"]}, "cluster_provider can't be set from outside"),
        ("matrix", [1], "matrix needs settings with lists of values"),
        ("matrix.fine_tuning_count", [1], "can't be set from outside"),
        ("ansible_connection", "ssh", "unknown setting 'ansible_connection'"),
        ("ansible_python_interpreter", "/tmp/x", "unknown setting"),
        ("run_dir", "/tmp", "unknown setting 'run_dir'"),
        ("preset", "x", "unknown setting 'preset'"),
        ("overrides", {"cluster_provider": "existing"}, "unknown setting 'overrides'"),
        ("fine_tuning_cuont", 1, "did you mean 'fine_tuning_count'?"),
        ("fine_tuning_count..", 1, "is not a valid dotted key"),
        ("", 1, "not a valid dotted key"),
    ],
)
def test_what_is_not_declared_is_refused(key: str, value: Any, words: str) -> None:
    assert words in refusal(key, value)


ATTACKS = [
    "{{ lookup('pipe', 'id') }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{# comment #}",
    "{{ lookup('file', '/etc/passwd') }}",
    "{{ hostvars }}",
    "$(id)",
    "`id`",
    "a; id",
    "a && id",
    "a | id",
    "a\nb: c",
    "1Gi}\n  hostPath: {path: /}",
    "../../etc/passwd",
    "/etc/passwd",
    "~/.kube/config",
    "-e x=1",
    "--help",
    "a b",
    'a"b',
    "a'b",
    "a\\b",
    "a\x00b",
    "%s",
    "${HOME}",
    "@/etc/passwd",
    "!unsafe x",
    "registry.example.com/evil:latest",
    "s3://mine/x",
    "１０Ｇｉ",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_no_text_with_a_meaning_to_templates_shells_or_paths_passes(text: str) -> None:
    assert "does not match" in refusal("fine_tuning_memory", text)
    assert "does not match" in refusal("fine_tuning_memory", [{"a": text}])
    assert "does not match" in refusal("fine_tuning_memory", {text: 1})
    assert "does not match" in refusal("matrix", {"fine_tuning_memory": ["1Gi", text]})


@given(st.text(max_size=40))
def test_a_text_that_passes_is_one_word(text: str) -> None:
    try:
        OUTSIDE.check({"fine_tuning_memory": text}, {}, CATALOGUE)
    except InputError:
        return
    assert text.isascii() and not set(text) & set("{}%#$`;&|<>()[]'\"\\/~!@*?:, \t\r\n\0") and text[0] not in "-."


@given(
    st.sampled_from(
        sorted(set(CATALOGUE.settings) - {dotted_paths.parse_dotted_path(key)[0] for key in OUTSIDE.patterns})
    )
)
def test_every_setting_that_no_declaration_names_is_refused(name: str) -> None:
    assert "can't be set from outside" in refusal(name)


def test_a_lab_permits_a_setting_with_a_pattern() -> None:
    more = OUTSIDE.permitting({"fine_tuning_model_name": r"[\w./-]+", "fine_tuning_dataset_name": None}, CATALOGUE)
    more.check({"fine_tuning_model_name": "example/model-7b"}, {}, CATALOGUE)
    assert "does not match" in refusal("fine_tuning_model_name", "{{ x }}", more)
    assert "does not match" in refusal("fine_tuning_dataset_name", "a/b", more)


def test_a_pattern_that_takes_for_ever_on_a_text_of_a_stranger_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_allowed_in_pull_requests, "PATTERN_LIMIT", 0.2)
    more = OUTSIDE.permitting({"fine_tuning_model_name": "(a+)+"}, CATALOGUE)
    more.check({"fine_tuning_model_name": "a" * 40}, {}, CATALOGUE)
    assert "took more than 0.2 s of processor time" in refusal("fine_tuning_model_name", "a" * 40 + "!", more)


@pytest.mark.parametrize(
    ("key", "pattern", "words"),
    [
        ("fine_tuning_modle_name", None, "did you mean 'fine_tuning_model_name'?"),
        ("fine_tuning_model_name", "(", "is not a valid regular expression"),
        ("notify_slack_channel", None, "it is a setting of role notify"),
        ("ci_associations", None, "it is a setting of role ci"),
        ("matrix_skip_if", None, "unknown setting"),
    ],
)
def test_a_lab_can_not_permit_what_decides_who_may_ask(key: str, pattern: str | None, words: str) -> None:
    if key not in CATALOGUE.settings and words.startswith("it is"):
        pytest.skip(f"{key} is added with role {key.partition('_')[0]}")
    with pytest.raises(InputError) as caught:
        OUTSIDE.permitting({key: pattern}, CATALOGUE)
    assert words in str(caught.value)
