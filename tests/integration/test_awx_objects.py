"""playbooks/awx.yml against a stand-in for AWX that answers awx.awx with the rules of a real AWX."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_collections
import pytest
from awx_stand_in import AwxStandIn
from message_servers import address
from playbook import ROOT, Done, play
from scripted_server import ScriptedServer

pytestmark = pytest.mark.skipif(
    not any((Path(folder) / "awx" / "awx").is_dir() for folder in ansible_collections.__path__),
    reason="the package ansible of this version has no collection awx.awx (ansible 12 and 13 have it)",
)
REPOSITORY = "https://git.example/perfscale/seatrial.git"
GIVEN = {
    "awx_objects_image": "registry.example/seatrial:1",
    "awx_objects_artifacts_dir": "/runs",
    "awx_objects_repository": REPOSITORY,
    "awx_objects_nightly": {"fine_tuning": {"preset": ["light", "keep"], "fine_tuning_count": 3}},
    "awx_objects_variables": {"cluster_lock_timeout": 60},
}


@pytest.fixture
def awx() -> Iterator[tuple[AwxStandIn, ScriptedServer]]:
    """An AWX whose organization is all that it has."""
    playbooks = {f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("[a-z]*.yml")}
    stand_in = AwxStandIn(playbooks, {REPOSITORY})
    with ScriptedServer(stand_in.answer) as server:
        yield stand_in, server


def call(awx: tuple[AwxStandIn, ScriptedServer], tmp_path: Path, **more: Any) -> Done:
    """Run awx.yml. The callback of Ansible itself shows what has changed."""
    env = {
        "CONTROLLER_HOST": address(awx[1]),
        "CONTROLLER_OAUTH_TOKEN": awx[0].token,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
    }
    return play("-e", json.dumps({**GIVEN, **more}), artifacts=tmp_path, project="awx", env=env)


def variables(answer: tuple[int, Any]) -> dict[str, Any]:
    """The extra variables of a job."""
    assert answer[0] == 201, answer
    return json.loads(answer[1]["extra_vars"])


def test_awx_gets_its_objects_once_and_loses_them_again(awx: tuple[AwxStandIn, ScriptedServer], tmp_path: Path) -> None:
    made = call(awx, tmp_path)
    assert made.code == 0, made.output
    stand_in = awx[0]
    run = "seatrial fine_tuning"
    assert stand_in.names() == {
        **dict.fromkeys(("projects", "execution_environments", "inventories", "inventory_sources"), ["seatrial"]),
        "credential_types": ["seatrial cluster", "seatrial secrets"],
        "job_templates": ["seatrial compare", run, f"{run} give back", f"{run} settings"]
        + ["seatrial reap", "seatrial replot"],
        "workflow_job_templates": [f"{run} workflow"],
        "workflow_job_template_nodes": ["give_back", "run"],
        "schedules": [f"{run} nightly", "seatrial reap"],
    }

    source = stand_in.named("inventory_sources", "seatrial")
    assert source["update_on_launch"] and source["update_cache_timeout"] >= 60, "give back waits for no other sync"

    again = call(awx, tmp_path)
    assert again.code == 0 and " changed=0 " in again.flat(), again.output
    assert "Nothing changed: AWX has all objects of seatrial" in again.flat()
    said = made.flat()
    assert "Created or changed: execution environment, project, inventory, credential type seatrial cluster, " in said
    for kind in (f"job template {run} give back", f"workflow {run} workflow", f"schedule {run} nightly"):
        assert kind in said.partition("Created or changed: ")[2]

    # Both nodes of a workflow know the run by what AWX renders in the same way for both of them.
    jobs = {name: variables(stand_in.launch("job_templates", name, {})) for name in (run, f"{run} give back")}
    given = {"run_artifacts_dir": "/runs", "cluster_provider": "existing", "cluster_lock_timeout": 60}
    given["run_name"] = "{{ awx_workflow_job_id | default(awx_job_id) }}"
    back = {"cluster_keep": False, "run_repeat_failure": "{{ awx_workflow_job_id is defined }}"}
    assert jobs == {run: given, f"{run} give back": {**given, **back}}
    node = {one["identifier"]: one["id"] for one in stand_in.objects["workflow_job_template_nodes"].values()}
    assert stand_in.links[node["run"], "failure_nodes"] == {node["give_back"]}
    assert stand_in.named("job_templates", f"{run} give back")["job_tags"] == "cleanup,release"
    assert variables(stand_in.launch("job_templates", "seatrial reap", {}))["cluster_reap_dry_run"] is False

    # A launch sends the answers alone: a default would override the presets.
    workflow = f"{run} workflow"
    assert variables(stand_in.launch("workflow_job_templates", workflow, {})) == {}
    answers = {"preset": ["light"], "fine_tuning_count": 2, "fine_tuning_flavour": "ilab"}
    assert variables(stand_in.launch("workflow_job_templates", workflow, answers)) == answers
    too_many = {"fine_tuning_count": 10**12}
    for wrong in ({"preset": "light"}, {"preset": ["nothing"]}, {"fine_tuning_count": "2"}, too_many):
        assert stand_in.launch("workflow_job_templates", workflow, wrong)[0] == 400
    ignored = stand_in.launch("job_templates", run, {"cluster_kubeconfig": "/etc/passwd"})
    assert ignored[1]["ignored_fields"] == {"extra_vars": {"cluster_kubeconfig": "/etc/passwd"}}

    gone = call(awx, tmp_path, awx_objects_state="absent")
    assert gone.code == 0 and stand_in.names() == {}, gone.output


@pytest.mark.long
def test_absent_removes_what_projects_had_that_are_not_listed_any_more_and_says_what_it_leaves(
    awx: tuple[AwxStandIn, ScriptedServer], tmp_path: Path
) -> None:
    made = call(awx, tmp_path, awx_objects_projects=["fine_tuning", "scheduler"])
    assert made.code == 0, made.output
    stand_in = awx[0]
    project = stand_in.named("projects", "seatrial")["id"]
    playbook = {"project": project, "playbook": "playbooks/fine_tuning.yml"}
    stand_in.create("job_templates", {"name": "seatrial of ann", **playbook})
    stand_in.create("job_templates", {"name": "another", **playbook})
    used = stand_in.named("credential_types", "seatrial cluster")["id"]
    stand_in.create("credentials", {"name": "lab", "credential_type": used})

    gone = call(awx, tmp_path, awx_objects_state="absent")  # with the default list, and without scheduler
    assert gone.code == 0, gone.output
    assert stand_in.names() == {
        "job_templates": ["another", "seatrial of ann"],
        "credential_types": ["seatrial cluster"],
        "credentials": ["lab"],
    }
    said = gone.flat()
    assert "Removed: " in said and "seatrial scheduler give back" in said and "seatrial scheduler workflow" in said
    assert "Left, because a credential uses it: seatrial cluster." in said
    assert "Left, because awx.yml did not create it: seatrial of ann." in said
    again = call(awx, tmp_path, awx_objects_state="absent")
    assert again.code == 0 and "Nothing changed: there is nothing of seatrial" in again.flat(), again.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"awx_objects_repository": "https://git.example/other.git"}, ": update 4 of project seatrial. Its output"),
        ({"awx_objects_image": ""}, "awx_objects_image is empty"),
        ({"awx_objects_questions": {"fine_tuning": ["fine_tuning_cuont"]}}, "unknown setting 'fine_tuning_cuont'"),
    ],
)
def test_a_mistake_ends_with_one_error(
    more: dict[str, Any], message: str, awx: tuple[AwxStandIn, ScriptedServer], tmp_path: Path
) -> None:
    done = call(awx, tmp_path, **{"awx_objects_nightly": {}, **more})
    assert done.code != 0 and message in done.flat(), done.output
    assert "job_templates" not in awx[0].names()
    if "repository" not in str(more):
        assert awx[0].names() == {}, "the input is checked before the first object is made"
