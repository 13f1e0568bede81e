"""Mistakes in a user's own template that are found before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_template_checks

JOB = 'apiVersion: batch/v1\nkind: Job\nmetadata: {name: "{{ name }}"}\n'
STAGES = [{"kind": "Job"}, {"kind": "Pod"}]


def checked(folder: Path, text: str) -> None:
    (folder / "t.yml.j2").write_text(text, encoding="utf-8")
    workload_template_checks.check_workload_template(folder / "t.yml.j2", ["gpus", "image"], STAGES, "my_stages")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOB + "spec: {{ nam }}\n", r"t\.yml\.j2, line 4: 'nam' is undefined \(did you mean 'name'\?\)"),
        (JOB + "{% for x in range(gpu) %}{{ x }}{% endfor %}", "line 4: 'gpu' is undefined"),
        (JOB + "spec: {{ name | to_jsn }}", "line 4: No filter named 'to_jsn'"),
        (JOB + "\nspec: {{ name", "line 5: unexpected end of template"),
        (
            f"{JOB}---\napiVersion: v1\nkind: ConfigMap # x\n",
            "is a ConfigMap, and the stages .* Job, Pod: set my_stages",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        checked(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        JOB + "spec: {{ index | drawn({'type': 'fixed', 'mean': 1}, 1) }}\n",
        JOB + "a: {{ labels | to_json }}\nb: '{{ '1' | from_yaml }}{{ run_id }}{{ point }}{{ namespace }}'\n",
        JOB + "{% set own = gpus + 1 %}{{ own }}{% for x in range(3) %}{{ loop.index }}{{ x }}{% endfor %}",
        JOB + "{{ other | default(1) }}{% if third is defined %}{{ third }}{% endif %}",
        JOB + "{% if server_has('batch/v1', 'Job', 'spec') %}{% endif %}{{ prepared }}",
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ name }}-files"}\n---\n' + JOB + "---\n",
        "kind: ConfigMap\nmetadata: {name: {{ gpus }}}\n---\n" + JOB,
        JOB.replace("Job", "{{ 'Job' }}"),
        "apiVersion: v1\nkind: List\nitems:\n  - " + JOB.replace("\n", "\n    "),
    ],
)
def test_what_the_load_can_render_is_accepted(tmp_path: Path, text: str) -> None:
    checked(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOB.replace("{name", "\n\tname").replace("}\n", "\n"), "not readable as YAML.*line 4"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "gives no object"),
        ("# nothing\n---\n", "gives no object"),
        ('metadata: {name: "{{ name }}"}\n', "document 1 of 1: an object needs apiVersion and kind"),
        (JOB.replace("{{ name }}", "mine"), "the workload's metadata.name is 'mine', it must be {{ name }}"),
        (
            JOB + "---\n" + JOB.replace("Job", "{{ 'Cron' }}Job"),
            "is a CronJob, and the stages .* Job, Pod: set my_stages",
        ),
        (JOB + "spec: {{ 1 // index }}\n", "cannot be rendered: ZeroDivisionError"),
    ],
)
def test_what_the_load_would_refuse_is_refused_before_the_run(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=rf"t\.yml\.j2.*({why})"):
        checked(tmp_path, text)
