# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a TOPSAIL configuration can't be translated is listed or refused by itself; no text of it becomes code."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_topsail_presets
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    resolve_settings,
    setting_templates,
    settings_from_ansible,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from topsail_settings import (
    CATALOGUE,
    DEFAULTS,
    GATING,
    ILAB,
    MACHINES,
    MATRIX,
    SCALE,
    SETTINGS,
    changed,
    load,
    points,
    preset,
    translated,
    unmapped,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")


def test_points_that_differ_only_in_what_has_no_counterpart_are_one() -> None:
    config = copy.deepcopy(SCALE)
    config["ci_presets"]["full"][f"{SETTINGS}.name"] = ["one", "two"]
    assert len(points(config, "full")) == 6


def test_what_has_no_counterpart_is_listed_with_its_reason() -> None:
    assert "export_artifacts.enabled = True: export_s3_url exports the run" in unmapped(GATING, "full")


def test_a_preset_that_topsail_cannot_apply_is_reported_and_the_others_are_written() -> None:
    presets, failed = translated(SCALE)
    assert failed == {
        "broken": "preset 'broken' extends 'scale', which does not exist",
        "light": "it enables none of fms, ilab and ray; name it with one that does, such as 'fms <preset>'",
    }
    assert set(presets) == {"topsail_fms", "topsail_one", "topsail_full", "topsail_smoke"}
    with pytest.raises(InputError, match="broken: preset 'broken' extends"):
        translated(SCALE, "broken")


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({f"{SETTINGS}.gpu": "ten"}, "gpu = 'ten' is not a whole number"),
        ({f"{SETTINGS}.gpu": True}, "gpu = True is not a whole number"),
        ({f"{SETTINGS}.pod_count": -1}, "pod_count = -1 is not a whole number"),
        ({f"{SETTINGS}.gpu": [1, 2]}, r"gpu = \[1, 2\] is not a whole number"),
        ({f"{SETTINGS}.model_name": {"a": 1}}, "model_name = .* is not a text"),
        ({f"{SETTINGS}.model_name": None}, "model_name is not set"),
        ({f"{SETTINGS}.model_name": "@tests.no.such"}, "there is no key 'no' in tests"),
        ({f"{SETTINGS}.model_name": f"@{SETTINGS}.model_name"}, "references lead in a circle"),
        ({f"{SETTINGS}.model_name": "*$@secrets.x"}, "refers to a secret"),
        ({SETTINGS: "text"}, "test_settings is no dictionary"),
        ({f"{SETTINGS}.hyper_parameters": "text"}, "hyper_parameters is no dictionary"),
        ({f"{SETTINGS}.hyper_parameters": {"a b": 1}}, "'a b' is not the name of a hyperparameter"),
        ({f"{SETTINGS}.hyper_parameters": {"r": float("nan")}}, "r = nan is no text, number"),
        ({f"{SETTINGS}.hyper_parameters": {"raw_lists": "text"}}, "raw_lists is no dictionary"),
        ({f"{SETTINGS}.secondary_nic_count": 2}, "secondary_nic_prefix is not"),
        ({"tests.fine_tuning.test_extra_settings": [{"gpu": 1}]}, "TOPSAIL refuses unless matbenchmarking"),
        ({"tests.fine_tuning.test_extra_settings": "text"}, "test_extra_settings is no list of dictionaries"),
        ({"tests.fine_tuning.many_model": {"enabled": True, "count": "ten"}}, "count = 'ten' is not a whole number"),
        ({"tests.fine_tuning.ilab.enabled": True}, "enables fms and ilab"),
        ({**MATRIX, f"{SETTINGS}.gpu": []}, "it has no point: gpu is an empty list"),
        ({**MATRIX, f"{SETTINGS}.gpu": list(range(50)), f"{SETTINGS}.pod_count": list(range(1, 51))}, "2,500 points"),
        ({"a..b": 1}, "cannot be read"),
        ({"tests.*.x": 1}, "cannot be read"),
        ({"": 1}, "cannot be read"),
    ],
)
def test_one_odd_preset_is_refused_by_itself(keys: dict[str, Any], why: str) -> None:
    made = write_topsail_presets.translate_wanted_presets(
        changed(GATING, ci_presets={"p": {"extends": ["fms"], **keys}}), []
    )
    assert [one.name for one in made.presets] == ["topsail_fms", "topsail_full", "topsail_lora"]
    with pytest.raises(InputError, match=why):
        raise InputError(made.refused["p"])


@pytest.mark.parametrize("name", [123, "überlast", "my preset", "x\nfine_tuning_presets: {}", "list of", ""])
@pytest.mark.parametrize("entry", [{"extends": ["fms"]}, None, ["fms"], "fms", {"extends": None}])
def test_an_odd_name_or_entry_is_refused_by_itself(name: Any, entry: Any) -> None:
    made = write_topsail_presets.translate_wanted_presets(changed(GATING, ci_presets={name: entry, "twin": entry}), [])
    assert str(name) in made.refused and ("twin" in made.refused) == (entry != {"extends": ["fms"]})
    text = write_topsail_presets.render_presets_file(made)
    assert list(load(text)) == [write_topsail_presets.VARIABLE]


def test_no_text_of_the_configuration_becomes_a_template(tmp_path: Path) -> None:
    texts = ["{{ lookup('pipe', 'false') }}", "{% if x %}", "{# c #}", "### Input: {{input}}"]
    config = preset(container_image=texts[0], hyper_parameters={"data_formatter_template": texts[3]})
    config["ci_presets"]["p"] |= {
        **MATRIX,
        f"{SETTINGS}.model_name": texts[:3],
        "tests.fine_tuning.namespace": texts[1],
    }
    source, target = tmp_path / "config.yaml", tmp_path / "out.yml"
    source.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    write_topsail_presets.write_presets_file(source, target, ["p"], False)
    loaded = DataLoader().load_from_file(str(target), unsafe=True, trusted_as_template=True)
    variables = {**loaded, "preset": "topsail_p"}
    request = settings_from_ansible.request_of_new_run("fine_tuning", variables, {}, DEFAULTS, CATALOGUE)
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = [one.settings for one in resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render).measured]
    assert [one["fine_tuning_model_name"].partition("@")[0] for one in found] == texts[:3]
    assert found[0]["fine_tuning_image"] == texts[0] and found[0]["fine_tuning_namespace"] == texts[1]
    assert found[0]["fine_tuning_hyper_parameters"]["data_formatter_template"] == texts[3]


def test_extra_settings_of_points_that_have_no_counterpart_are_listed() -> None:
    config = changed(GATING, ci_presets={"p": {"extends": ["fms"], **MATRIX}})
    config["tests"]["fine_tuning"]["test_extra_settings"] = [{"request_equals_limits": True}, {"sleep_forever": True}]
    listed = unmapped(config, "p")
    for key in ("request_equals_limits", "sleep_forever"):
        assert f"{SETTINGS}.{key} = True: there is no such setting" in listed


def test_values_outside_of_presets_are_listed_and_presets_of_every_run_are_applied() -> None:
    config = changed(
        GATING,
        rhods={"catalog": {"tag": "latest"}, "users": [{"name": "jo", "password": "kanary-2"}]},
        matbench={"api_token": "kanary-1", "url": "https://x/?token=kanary-4"},
        ci_presets={
            "always": {f"{SETTINGS}.gpu": 3},
            "to_apply": ["always"],
            "variable_overrides": {f"{SETTINGS}.pod_count": 2, "matbench.api_token": "kanary-3"},
        },
    )
    made = write_topsail_presets.translate_wanted_presets(config, ["fms"])
    assert made.presets[0].settings["fine_tuning_gpus"] == 3 and made.presets[0].settings["fine_tuning_pod_count"] == 2
    text = write_topsail_presets.render_presets_file(made)
    assert "rhods.catalog.tag = latest: " in text and "export_artifacts.enabled = False: " in text
    assert "ci_presets.to_apply = ['always']" in text and "ci_presets.variable_overrides = " in text
    assert "kanary" not in text and "'name': 'jo'" in text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"ci_presets: {}\nx: caf\xe9\n", "it is not text in UTF-8"),
        ("ci_presets: {}\n".encode("utf-16"), "it is not text in UTF-8"),
        (b"a: [", "not readable as YAML"),
        (b"", "no configuration of TOPSAIL"),
        (b"ci_presets: {a: {}}\ntests: {kserve: {}}\n", "it is not of TOPSAIL's project fine_tuning"),
        (b"ci_presets: {}\ntests: {fine_tuning: {test_settings: {}}}\n", "none of its presets can be imported"),
        (
            b"a: &a [1]\n"
            + b"".join(b"%c: &%c [%b]\n" % (98 + n, 98 + n, b", ".join([b"*%c" % (97 + n)] * 9)) for n in range(8))
            + b"ci_presets: {}\n",
            "its aliases expand",
        ),
        (b"ci_presets: {}\na: &a [*a]\n", "an alias refers to a part that contains it"),
        (b"ci_presets: {}\na: " + b"[" * 60 + b"]" * 60, "more than 50 levels"),
        (b"#" * 2**21, "more than 1 MiB"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(InputError, match=why):
        write_topsail_presets.write_presets_file(tmp_path / "config.yaml", tmp_path / "out.yml", [], False)
    assert not (tmp_path / "out.yml").exists()


def test_only_a_file_that_an_import_has_written_is_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "topsail.yml"
    source.write_text(yaml.safe_dump(ILAB, sort_keys=False), encoding="utf-8")
    for content in ("mine: 1\n", "", f"---\n{write_topsail_presets.HEADER}\nmine: 1\n"):
        target.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match="was not written by an import"):
            write_topsail_presets.write_presets_file(source, target, [], False)
        assert target.read_text(encoding="utf-8") == content
    target.unlink()
    write_topsail_presets.write_presets_file(source, target, [], False)
    assert write_topsail_presets.write_presets_file(source, target, ["nics"], False)["presets"] == ["topsail_nics"]
    target.write_text(target.read_text(encoding="utf-8").replace("port-01", "port-99"), encoding="utf-8")
    with pytest.raises(InputError, match="or was edited since"):
        write_topsail_presets.write_presets_file(source, target, [], False)
    with pytest.raises(InputError, match="end with .yml or .yaml"):
        write_topsail_presets.write_presets_file(source, tmp_path / "topsail.txt", [], False)
    with pytest.raises(InputError, match="cannot be written"):
        write_topsail_presets.write_presets_file(source, Path("/proc/topsail.yml"), [], False)
    with pytest.raises(InputError, match="is a folder"):
        write_topsail_presets.write_presets_file(tmp_path, target, [], False)


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["@a.x", "*$@a", "fms"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


LEAVES = write_topsail_presets.topsail_configuration.leaf_values(MACHINES)


KEYS = [key for key, _value in LEAVES if not key.startswith("ci_presets")]


@settings(max_examples=40)
@given(st.sampled_from([*KEYS, "tests.fine_tuning", SETTINGS, "clusters.sutest", "fine_tuning.sources"]), ODD)
def test_any_value_of_any_key_is_translated_or_refused_by_itself(key: str, value: Any) -> None:
    config = changed(MACHINES, ci_presets={"odd": {"extends": ["gpu"], key: value}})
    made = write_topsail_presets.translate_wanted_presets(config, [])
    assert {"topsail_gpu", "topsail_spot"} <= {one.name for one in made.presets}
    assert ("odd" in made.refused) != ("topsail_odd" in {one.name for one in made.presets})
    loaded = load(write_topsail_presets.render_presets_file(made))
    assert list(loaded) == [write_topsail_presets.VARIABLE]
    assert loaded[write_topsail_presets.VARIABLE].keys() == {one.name for one in made.presets}
