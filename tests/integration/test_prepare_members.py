"""Phase prepare without a cluster: calls of roles and of a project become members, and all results are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import Done, play

CANARY = "canary-71d0-member"
#: What role run reads of other roles.
NONE = {"node_scaling_count": 0, "node_scaling_users": {}, "node_scaling_sets": [], "stack": [], "gpu_operator_burn": 0}


def waits_for(folder: Path, own: str, other: str) -> dict[str, Any]:
    """A call that passes only if the other one runs at the same time."""
    code = f"touch {folder}/{own}; for i in $(seq 900); do test -e {folder}/{other} && exit 0; sleep 0.1; done; exit 1"
    return {"module": "ansible.builtin.command", "arguments": {"argv": ["sh", "-c", code]}}


def member(name: str, call: dict[str, Any], after: list[str]) -> dict[str, Any]:
    given = {"run_member_name": name, "run_member_call": call, "run_member_after": after}
    return {"ansible.builtin.include_role": {"name": "perfscale.seatrial.run", "tasks_from": "member"}, "vars": given}


def download(claim: str) -> dict[str, Any]:
    given = {"storage_kubeconfig": "/none", "storage_namespace": "none", "storage_claim": claim}
    return {
        "ansible.builtin.include_role": {"name": "perfscale.seatrial.storage", "tasks_from": "present"},
        "vars": given,
    }


def prepare(tmp_path: Path, beside: list[dict[str, Any]], **settings: Any) -> tuple[Done, Path]:
    """Run entry point prepare of role run with a project that has this entry point prepare_beside."""
    project = tmp_path / "roles" / "my_project" / "tasks"
    project.mkdir(parents=True)
    (project / "prepare_beside.yml").write_text(yaml.safe_dump(beside, sort_keys=False))
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    facts = {**NONE, "run_dir": str(run_dir), "run_id": "r-members", "cluster_acquired": {"sutest": {}}, **settings}
    include = {"name": "perfscale.seatrial.run", "tasks_from": "prepare"}
    given = {"run_prepare_role": "my_project", "run_prepare_beside": True}
    tasks = [
        {"ansible.builtin.set_fact": facts},
        {
            "block": [{"ansible.builtin.include_role": include, "vars": given}],
            "always": [
                {
                    "ansible.builtin.copy": {
                        "dest": str(tmp_path / "done.json"),
                        "content": "{{ (__run_prepared | default({})).members | default({}) | to_json }}",
                    }
                }
            ],
        },
    ]
    path = tmp_path / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}], sort_keys=False))
    env = {"ANSIBLE_ROLES_PATH": str(tmp_path / "roles"), "SEATRIAL_STORAGE_HUB_TOKEN": CANARY}
    return play("-vvv", artifacts=tmp_path / "runs", path=path, env=env), run_dir


def test_members_of_a_project_and_of_roles_run_side_by_side_and_each_result_is_told(tmp_path: Path) -> None:
    last = {"module": "ansible.builtin.command", "arguments": {"argv": ["true"]}}
    beside = [
        member("one", waits_for(tmp_path, "one", "two"), []),
        download("models"),
        member("two", waits_for(tmp_path, "two", "one"), ["registry"]),
        download("models"),
        member("after both", last, ["one", "two"]),
        member("after a failure", last, ["volume models"]),
    ]
    done, run_dir = prepare(tmp_path, beside)
    assert done.code == 2, done.output
    found = files.read_json(tmp_path / "done.json")
    assert {name: one["state"] for name, one in found.items()} == {
        "one": "passed",
        "volume models": "failed",
        "two": "passed",
        "volume models 2": "failed",
        "after both": "passed",
        "after a failure": "left_out",
    }
    assert "2 of 6 members failed" in done.flat() and "after both: done after" in done.flat()
    assert "failed: volume models" in done.flat(), "told at once"
    assert CANARY not in done.output
    (step,) = run_dir.glob("*__run__prepare")
    assert "2 of 6 members failed" in (step / "log").read_text()
    assert "step.yml" in (step / "COMMAND").read_text()
    downloads = sorted(run_dir.glob("*__storage__present"))
    assert len(downloads) == 2
    for path in downloads:
        assert (path / "FAILURE").read_text().startswith("volume models")
    for path in run_dir.rglob("*"):
        assert not path.is_file() or CANARY not in path.read_text(), path


@pytest.mark.parametrize("check", [False, True])
def test_nothing_to_do_opens_no_step_and_a_call_outside_is_made_at_once(tmp_path: Path, check: bool) -> None:
    done, run_dir = prepare(tmp_path, [])
    assert done.code == 0, done.output
    assert list(run_dir.glob("*__*")) == []
    made = member(
        "alone", {"module": "ansible.builtin.file", "arguments": {"path": f"{tmp_path}/made", "state": "touch"}}, []
    )
    path = tmp_path / "alone.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [made]}], sort_keys=False))
    done = play(*(["--check"] if check else []), artifacts=tmp_path, path=path)
    assert done.code == 0, done.output
    assert (tmp_path / "made").exists() is not check
