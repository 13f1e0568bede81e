"""Settings as a user meets them: what is shown, and that bad input is one clear error before anything is touched."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from playbook import PROGRAM, ROOT, environment, play


def test_the_tag_settings_shows_what_was_set_by_whom_and_touches_nothing(tmp_path: Path) -> None:
    done = play("--tags", "settings", "-e", "preset=light", "-e", "fine_tuning_count=5", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert any(row[:3] == ["fine_tuning_count", "5", "-e,"] for row in rows), done.output
    assert "Settings that were set (preset light; 1 test point):" in done.output
    assert "fine_tuning_presets.yml" in done.output
    assert "[WARNING]" not in done.output
    assert not (tmp_path / "none").exists()


def later(*values: object) -> object:
    """A case of a message that the unit tests of settings check too; other cases go the same way to the screen."""
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-e", "preset=lihgt"], "unknown preset 'lihgt' (did you mean 'light'?)"),
        later(["-e", "fine_tuning_cuont=5"], "no setting of role fine_tuning (did you mean 'fine_tuning_count'?)"),
        (["-e", "prest=light"], "-e: unknown setting 'prest' (did you mean 'preset'?)"),
        (["-e", "fine_tuning_count=many"], 'fine_tuning_count is a whole number, and "many" is not'),
        later(["-e", "fine_tuning_count=-3"], "-e: fine_tuning_count is -3, and it must be 0 or more"),
        later(["-e", "fine_tuning_memory=10Gigs"], "the request of memory is '10Gigs', it must be a quantity"),
        later(["-e", "fine_tuning_hyper_parameters=r4"], "fine_tuning_hyper_parameters is a dictionary"),
        later(["-e", "fine_tuning_hyper_parameters.r=4"], "reaches into a setting"),
        (
            ["-e", json.dumps({"overrides": {"fine_tuning_hyper_parameters.zz": 4}})],
            "unknown hyper-parameter 'zz' of flavour fms",
        ),
        later(["-e", "overrides=x"], "overrides needs a dictionary"),
        (["-e", json.dumps({"matrix": {"fine_tuning_cuont": [1]}})], "did you mean 'fine_tuning_count'?"),
        later(
            ["-e", json.dumps({"matrix": {"fine_tuning_count": [1, 2]}}), "-e", "fine_tuning_count=3"],
            "leave one of them out",
        ),
        later(["-e", "cluster_provider=rehersal"], "rehersal"),
        (["--tags", "test"], "phase test needs a cluster, and this run has none: take one first"),
        later(["--skip-tags", "cluster"], "phase prepare needs a cluster, and this run has none"),
        later(["--tags", "cleanup,release"], "works on what an earlier run left, and no run is named"),
        (
            ["-e", "cluster_provider=existing", "-e", "cluster_kubeconfig=README.mt"],
            f"there is no file {ROOT}/README.mt (did you mean '{ROOT}/README.md'?) (set by -e)",
        ),
        later(["-e", "cluster_provider=existing"], "set -e cluster_kubeconfig=<file>"),
        (["--tags", "settings", "-e", "cluster_provider=existing"], "set -e cluster_kubeconfig=<file>"),
        (["--check"], "--check can't predict a run; --tags settings shows what it would do"),
        (["-e", "preset=light keep"], "-e: 'keep' belongs to no variable"),
        later(["-e", "cluster_lifetime=2moons"], "cluster_lifetime: '2moons' is not a duration"),
        later(["-e", "workload_run_on=contoller"], "no such host (did you mean 'controller'?)"),
        later(
            ["-e", "workload_kubeconfig=/no/kubeconfig"], "workload_kubeconfig: there is no /no/kubeconfig (set by -e)"
        ),
        (["-e", "workload_count=3"], "-e: 'workload_count' is set by the playbook itself and is not a setting"),
        (["-e", "notify_timeout=3"], "-e: unknown setting 'notify_timeout' of role notify"),
        later(
            ["-e", json.dumps({"results_kpi_files": ["/no/kpis.yml"]})], "results_kpi_files: there is no /no/kpis.yml"
        ),
        later(
            ["-e", '{"results_limits": {"time_to_scheduled_p96": {"max": 1}}}'], "did you mean 'time_to_scheduled_p95'?"
        ),
        later(
            ["--tags", "settings", "-e", '{"results_limits": {"makespan": {"max": "2 GB"}}}'], "'2 GB' has another unit"
        ),
        later(["-e", '{"overrides": {"results_limits.makespan.mx": "2 s"}}'], "needs max or min, got {mx: 2 s}"),
        later(["-e", json.dumps({"rehearsal_components": ["kueu"]})], "did you mean 'kueue'?"),
        (["--tags", "tset"], "no phase has this name (did you mean 'test'?)"),
        (["-e", "run_dir=/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["-e", "fine_tuning_model_token_required=true"], "SEATRIAL_FINE_TUNING_MODEL_TOKEN"),
        later(["-e", "fine_tuning_model_token_file=/no/file"], "fine_tuning_model_token_file: can't read /no/file"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_input_is_one_clear_error_before_anything_is_touched(
    words: list[str], message: str, tmp_path: Path
) -> None:
    done = play(*words, artifacts=tmp_path / "none")
    assert done.code != 0
    assert message in done.flat(), done.output
    assert "Nothing was created or changed." in done.output
    assert done.flat().count(message) == 1, "a message is said once"
    assert not (tmp_path / "none").exists()


TAG, BLANK = (["--tags", "nosuch"], "nosuch: no such tag"), (["-e", "source=a b"], "-e: 'b' belongs to no variable")


@pytest.mark.parametrize(
    ("project", "words", "message"),
    [
        *((project, *TAG) for project in ("replot", "compare", "doctor", "new_project", "rehearsal")),
        ("replot", *BLANK),
        *(later(project, *BLANK) for project in ("compare", "doctor", "new_project", "rehearsal")),
    ],
)
def test_what_ansible_would_ignore_is_refused(project: str, words: list[str], message: str, tmp_path: Path) -> None:
    done = play(*words, artifacts=tmp_path / "none", project=project)
    assert done.code != 0
    assert message in done.flat(), done.output


@pytest.mark.parametrize("words", [["-e", "fine_tuning_count=many"], later(["-e", "cluster_provider=exsting"])])
def test_an_error_of_the_command_line_names_no_file(words: list[str], tmp_path: Path) -> None:
    done = play("-e", "preset=light", *words, artifacts=tmp_path / "none")
    assert done.code != 0
    assert "-e: " in done.output and ".yml" not in done.output, done.output


WRONG = {"preset": "ours", "fine_tuning_presets_lab": {"ours": {"extends": ["light"], "fine_tuning_logs": "every"}}}


@pytest.mark.parametrize(
    ("values", "words", "source", "file"),
    [
        (WRONG, [], "preset ours: fine_tuning_logs can't be 'every'", "my_lab.yml"),
        later({"fine_tuning_logs": "every"}, [], "inventory: fine_tuning_logs can't be 'every'", "my_lab.yml"),
        later({"preset": "lihgt"}, [], "unknown preset 'lihgt' (did you mean 'light'?)", "my_lab.yml"),
        ({}, ["-e", "@given.yml"], "-e: fine_tuning_logs can't be 'al' (did you mean 'all'?)", "given.yml"),
        (
            {"matrix": {"fine_tuning_logs": ["all", "every"]}},
            [],
            "matrix, point 002: fine_tuning_logs can't be 'every'",
            "my_lab.yml",
        ),
        later({}, ["-e", "@overrides.yml"], "overrides: fine_tuning_logs can't be 'al' (did", "overrides.yml"),
    ],
    ids=["preset", "inventory", "name of a preset", "-e @file", "matrix", "overrides"],
)
def test_an_error_of_a_file_names_that_file(
    values: dict, words: list[str], source: str, file: str, tmp_path: Path
) -> None:
    (tmp_path / "given.yml").write_text("fine_tuning_logs: al\n", encoding="utf-8")
    (tmp_path / "overrides.yml").write_text("overrides: {fine_tuning_logs: al}\n", encoding="utf-8")
    lab = ["-i", str(inventory(tmp_path, values))]
    words = [word.replace("@", f"@{tmp_path}/") for word in words]
    done = play(*lab, *words, "--tags", "settings", artifacts=tmp_path / "none")
    assert done.code != 0
    assert done.flat().count(source) == 1, done.output
    assert re.findall(r"written in (\S+):\d+:\d+$", done.output, re.MULTILINE)[0].endswith(f"/{file}"), done.output


def inventory(tmp_path: Path, values: dict | None = None) -> Path:
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
    usual = {
        "preset": "ours",
        "fine_tuning_count": "7",
        "fine_tuning_presets_lab": {"ours": {"extends": ["light"], "fine_tuning_rate": 3}},
    }
    values = usual if values is None else values
    (lab / "group_vars" / "my_lab.yml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return lab


def test_a_lab_gives_values_and_presets_of_its_own_and_presets_win_over_its_values(tmp_path: Path) -> None:
    done = play("-i", str(inventory(tmp_path)), "--tags", "settings", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    assert "(preset ours; 1 test point)" in done.output
    count = next(line for line in done.output.splitlines() if line.strip().startswith("fine_tuning_count "))
    assert "preset ours -> light" in count and "over inventory" in count, done.output
    assert "preset ours (group_vars/my_lab.yml:" in done.output


def test_the_value_that_the_command_line_replaces_is_shown(tmp_path: Path) -> None:
    lab = ["-i", str(inventory(tmp_path, {"fine_tuning_count": 7}))]
    done = play(*lab, "-e", "fine_tuning_count=5", "--tags", "settings", artifacts=tmp_path / "none")
    assert re.search(r"fine_tuning_count +5 +-e, over inventory$", done.output, re.MULTILINE), done.output


def test_a_run_whose_output_nobody_reads_ends(tmp_path: Path) -> None:
    command = [str(PROGRAM), str(ROOT / "playbooks" / "fine_tuning.yml"), "-e", "preset=light", "--tags", "settings"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE) as started:
        assert started.stdout
        started.stdout.close()  # before the first line
        try:
            assert started.wait(timeout=120) == 0
        finally:
            started.kill()


def test_the_example_of_the_documentation_runs_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n# inventories/my_lab/group_vars/my_lab.yml\n(.*?)```", page, re.DOTALL)
    assert example
    lab = ["-i", str(inventory(tmp_path, yaml.safe_load(example[1])))]
    done = play(*lab, "-e", "preset=nightly", "--tags", "settings", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    assert re.search(
        r"fine_tuning_count +50 +preset nightly \(group_vars/my_lab.yml:\d+:\d+\), over preset", done.output
    )


def test_the_preset_that_extends_others_and_its_matrix_are_shown(tmp_path: Path) -> None:
    done = play("--tags", "settings", "-e", "preset=multi_gpu", artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    assert "(preset multi_gpu; 4 test points)" in done.output
    assert (
        "  004  fine_tuning_gpus=8: to measure: 2 workloads in about 4 s, 0.02 GPU hours, at most 16 GPUs"
        in done.output
    )
    assert "  all 4 points: about 47 s, " in done.output


def test_what_was_given_is_shown_whole_and_also_when_it_is_the_default(tmp_path: Path) -> None:
    selector = {f"node.example.com/label-{number}": "x" * 20 for number in range(4)}
    given = json.dumps({"fine_tuning_node_selector": selector})
    done = play("--tags", "settings", "-e", "fine_tuning_gpus=1", "-e", given, artifacts=tmp_path / "none")
    assert done.code == 0, done.output
    assert re.search(r"fine_tuning_gpus +1 +-e; the default$", done.output, re.MULTILINE), done.output
    assert json.dumps(selector) in done.output


#: Opens every preset of every project as its playbook does under the tag ``settings``, all in one process.
EVERY_PRESET = """
- hosts: localhost
  gather_facts: false
  tags: [settings]
  tasks:
    - name: "{{ project }}"
      perfscale.seatrial.open_run:
        project: "{{ project }}"
        phases: [settings, test]
      loop: "{{ presets }}"
      loop_control: {loop_var: preset}
      ignore_errors: true
      register: opened
    - ansible.builtin.assert:
        that: opened.results | map(attribute="only_settings") | list == [true] * (presets | length)
"""


#: What a user must add to presets of a project.
ADDED = {"users": {"users_image": "registry.example.com/python:3"}}


@pytest.mark.long  # tests/unit/roles/test_presets.py resolves all of them in one process
def test_every_preset_of_every_project_resolves(tmp_path: Path) -> None:
    """Through Ansible itself, so that templates and types are those of a run."""
    plays, count = [], 0
    for path in sorted((ROOT / "group_vars" / "all").glob("*_presets.yml")):
        project = path.name.removesuffix("_presets.yml")
        names = list(yaml.safe_load(path.read_text(encoding="utf-8"))[f"{project}_presets"] or {})
        one = yaml.safe_load(EVERY_PRESET)[0]
        one["vars"] = {"project": "fine_tuning" if project == "common" else project, "presets": names}
        one["vars"] |= ADDED.get(project, {})
        plays.append(one)
        count += len(names)
    (tmp_path / "group_vars").symlink_to(ROOT / "playbooks" / "group_vars")
    (tmp_path / "all.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    done = play("--tags", "settings", artifacts=tmp_path / "none", path=tmp_path / "all.yml")
    assert done.code == 0, done.output
    shown = re.findall(r"Settings that were set \(preset (\w+); \d+ test points?\):", done.output)
    assert len(shown) == count > 20, done.output
