"""Settings as a user meets them: what is shown, and that bad input is one clear error before anything is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from playbook import ROOT, play


def test_the_tag_settings_shows_what_differs_and_who_set_it_and_touches_nothing(tmp_path: Path) -> None:
    done = play("--tags", "settings", "-e", "preset=light", "-e", "fine_tuning_count=5", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert any(row[:3] == ["fine_tuning_count", "5", "-e,"] for row in rows), done.output
    assert "Settings that differ from their defaults (preset light; 1 test point):" in done.output
    assert "fine_tuning_presets.yml" in done.output
    assert "[WARNING]" not in done.output
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-e", "preset=lihgt"], "unknown preset 'lihgt' (did you mean 'light'?)"),
        (["-e", "fine_tuning_cuont=5"], "no setting of role fine_tuning (did you mean 'fine_tuning_count'?)"),
        (["-e", "prest=light"], "-e: 'prest' is no setting (did you mean 'preset'?)"),
        (["-e", "fine_tuning_count=many"], 'fine_tuning_count is a whole number, and "many" is not'),
        (["-e", "fine_tuning_hyper_parameters=r4"], "fine_tuning_hyper_parameters is a dictionary"),
        (["-e", "fine_tuning_hyper_parameters.r=4"], "reaches into a setting"),
        (
            ["-e", json.dumps({"overrides": {"fine_tuning_hyper_parameters.zz": 4}})],
            "no 'zz' in fine_tuning_hyper_parameters",
        ),
        (["-e", "overrides=x"], "overrides needs a dictionary"),
        (["-e", json.dumps({"matrix": {"fine_tuning_cuont": [1]}})], "did you mean 'fine_tuning_count'?"),
        (
            ["-e", json.dumps({"matrix": {"fine_tuning_count": [1, 2]}}), "-e", "fine_tuning_count=3"],
            "leave one of them out",
        ),
        (["-e", "cluster_provider=rehersal"], "rehersal"),
        (["--tags", "tset"], "no phase is called that (did you mean 'test'?)"),
        (["-e", "run_dir=/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["-e", "fine_tuning_model_token_required=true"], "SEATRIAL_FINE_TUNING_MODEL_TOKEN"),
        (["-e", "fine_tuning_model_token_file=/no/file"], "fine_tuning_model_token_file: can't read /no/file"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_input_is_one_clear_error_before_anything_is_touched(
    words: list[str], message: str, tmp_path: Path
) -> None:
    done = play(*words, artifacts=tmp_path / "none")
    assert done.code != 0
    assert message in done.flat(), done.output
    assert not (tmp_path / "none").exists()


def inventory(tmp_path: Path) -> Path:
    """A lab: values in a named group's file, a preset layer of its own, a preset by default."""
    lab = tmp_path / "lab"
    (lab / "group_vars").mkdir(parents=True)
    (lab / "hosts.yml").write_text(
        yaml.safe_dump(
            {
                "all": {
                    "children": {
                        "my_lab": {
                            "hosts": {
                                "localhost": {
                                    "ansible_connection": "local",
                                    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                                }
                            }
                        }
                    }
                }
            }
        ),
        encoding="utf-8",
    )
    values = {
        "preset": "ours",
        "fine_tuning_count": "7",
        "fine_tuning_presets_lab": {"ours": {"extends": ["light"], "fine_tuning_rate": 3}},
    }
    (lab / "group_vars" / "my_lab.yml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return lab


def test_a_lab_gives_values_and_presets_of_its_own_and_presets_win_over_its_values(tmp_path: Path) -> None:
    done = play("-i", str(inventory(tmp_path)), "--tags", "settings", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    assert "(preset ours; 1 test point)" in done.output
    count = next(line for line in done.output.splitlines() if line.strip().startswith("fine_tuning_count "))
    assert "preset ours -> light" in count and "over inventory" in count, done.output
    assert "preset ours (group_vars/my_lab.yml:" in done.output


def test_the_preset_that_extends_others_and_its_matrix_are_shown(tmp_path: Path) -> None:
    done = play("--tags", "settings", "-e", "preset=multi_gpu", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    points = next(line for line in done.output.splitlines() if "test points" in line)
    assert int(points.split(";")[1].split()[0]) >= 2


#: Opens every preset of every project as its playbook does under the tag ``settings``, all in one process.
EVERY_PRESET = """
- hosts: localhost
  gather_facts: false
  tags: [settings]
  tasks:
    - name: "{{ project }}"
      perfscale.seatrial.settings:
        project: "{{ project }}"
        phases: [settings, test]
      loop: "{{ presets }}"
      loop_control: {loop_var: preset}
      ignore_errors: true
      register: opened
    - ansible.builtin.assert:
        that: opened.results | map(attribute="only_settings") | list == [true] * (presets | length)
"""


def test_every_preset_of_every_project_resolves(tmp_path: Path) -> None:
    """Through Ansible itself, so that templates and types are those of a run."""
    plays, count = [], 0
    for path in sorted((ROOT / "group_vars" / "all").glob("*_presets.yml")):
        project = path.name.removesuffix("_presets.yml")
        names = list(yaml.safe_load(path.read_text(encoding="utf-8"))[f"{project}_presets"] or {})
        one = yaml.safe_load(EVERY_PRESET)[0]
        one["vars"] = {"project": "fine_tuning" if project == "common" else project, "presets": names}
        plays.append(one)
        count += len(names)
    (tmp_path / "group_vars").symlink_to(ROOT / "playbooks" / "group_vars")
    (tmp_path / "all.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    done = play("--tags", "settings", artifacts=tmp_path / "none", path=tmp_path / "all.yml")
    assert done.code == 0, done.output
    shown = re.findall(r"Settings that differ from their defaults \(preset (\w+); \d+ test points?\):", done.output)
    assert len(shown) == count > 20, done.output
