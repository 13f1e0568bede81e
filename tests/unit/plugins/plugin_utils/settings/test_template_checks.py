"""Mistakes in a user's own template that are found before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import template_checks

JOB = 'apiVersion: batch/v1\nkind: Job\nmetadata: {name: "{{ name }}"}\n'
STAGES = [{"kind": "Job"}, {"kind": "Pod"}]


def checked(folder: Path, text: str) -> None:
    (folder / "t.yml.j2").write_text(text, encoding="utf-8")
    template_checks.check_template(folder / "t.yml.j2", ["gpus", "image"], STAGES, "my_stages")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOB + "spec: {{ nam }}\n", r"t\.yml\.j2, line 4: 'nam' is undefined \(did you mean 'name'\?\)"),
        (JOB + "{% for x in range(gpu) %}{{ x }}{% endfor %}", "line 4: 'gpu' is undefined"),
        (JOB + "spec: {{ name | to_jsn }}", "line 4: No filter named 'to_jsn'"),
        (JOB + "\nspec: {{ name", "line 5: unexpected end of template"),
        (
            f"{JOB}---\nkind: ConfigMap # x\nmetadata: {{}}\n",
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
        JOB + "{{ labels | to_json }}{{ '1' | from_yaml }}{{ labels }}{{ run_id }}{{ point }}{{ namespace }}\n",
        JOB + "{% set own = gpus + 1 %}{{ own }}{% for x in range(3) %}{{ loop.index }}{{ x }}{% endfor %}",
        JOB + "{{ other | default(1) }}{% if third is defined %}{{ third }}{% endif %}",
        JOB + "{% if server_has('batch/v1', 'Job', 'spec') %}{% endif %}{{ prepared }}",
        "kind: ConfigMap\n---\n" + JOB + "---\n",
        JOB.replace("Job", "{{ 'Job' }}"),
        "apiVersion: v1\nkind: List\nitems: []\n",
    ],
)
def test_what_the_load_can_render_is_accepted(tmp_path: Path, text: str) -> None:
    checked(tmp_path, text)
