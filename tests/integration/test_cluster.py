# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role cluster as playbooks use it: which cluster is taken, for whom, and that only the run's own is given back."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_session
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from playbook import PROGRAM, ROOT, Done, environment

RUN_ID = "c-cluster"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: perfscale.seatrial.cluster
        tasks_from: "{{ one }}"
        rolespec_validate: false
      loop: "{{ entries.split(',') }}"
      loop_control: {loop_var: one}
"""


class Lab:
    """A run directory and an inventory, and role cluster called on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.play = folder / "play.yml"
        self.play.write_text(PLAY, encoding="utf-8")
        self.inventory = folder / "hosts.yml"
        self.hosts({})

    def hosts(self, more: dict[str, dict[str, Any]]) -> None:
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        files.write_yaml(self.inventory, {"all": {"hosts": {"localhost": local, **more}}})

    def run(self, entries: str, *words: str, env: dict[str, str] | None = None) -> Done:
        facts = f"entries={entries} run_id={RUN_ID} run_dir={self.run_dir}"
        command = [str(PROGRAM), "-i", str(self.inventory), str(self.play), "-e", facts, *words]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), **(env or {})})
        done = subprocess.run(
            command, cwd=self.folder, env=where, timeout=300, check=False, capture_output=True, text=True
        )
        return Done(done.returncode, done.stdout + done.stderr)

    @property
    def clusters(self) -> dict[str, Any]:
        return files.read_yaml(self.run_dir / "cluster.yml")["clusters"]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def existing(kubeconfig: Any) -> tuple[str, ...]:
    return ("-e", "cluster_provider=existing", "-e", f"cluster_kubeconfig={kubeconfig}")


def test_an_existing_cluster_is_known_as_what_it_is_and_stays(lab: Lab, rehearsal: Any) -> None:
    done = lab.run("acquire,release", *existing(rehearsal.kubeconfig))
    assert done.code == 0, done.output
    assert "sutest and driver: existing cluster at 127.0.0.1:" in done.flat()
    assert "not owned by this run" in done.flat() and "was there before this run and stays" in done.flat()
    record = lab.clusters["sutest"]
    assert record == lab.clusters["driver"]
    assert record["state"] == "released" and record["owned"] is False
    assert record["simulated"] is True and record["simulated_writers"] == ["node"]
    again = lab.run("info", *existing(rehearsal.kubeconfig))
    assert again.code == 0, "the cluster is still up"


def test_each_host_of_an_inventory_may_have_its_own_cluster(lab: Lab, rehearsal: Any) -> None:
    """Two kubeconfigs stand for two clusters, also when they lead to the same server."""
    second = lab.folder / "driver-kubeconfig"
    second.write_bytes(Path(rehearsal.kubeconfig).read_bytes())
    common = {"cluster_provider": "existing"}
    lab.hosts(
        {
            "sutest": {**common, "cluster_kubeconfig": str(rehearsal.kubeconfig)},
            "driver": {**common, "cluster_kubeconfig": str(second)},
        }
    )
    done = lab.run("acquire,release")
    assert done.code == 0, done.output
    assert lab.clusters["sutest"]["kubeconfig"] == str(rehearsal.kubeconfig)
    assert lab.clusters["driver"]["kubeconfig"] == str(second)
    assert "sutest: existing cluster" in done.flat() and "driver: existing cluster" in done.flat()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["-e", "cluster_provider=exsting"],
            "'exsting' is unknown (did you mean 'existing'?); known: existing, hive_pool, managed,",
        ),
        (
            ["-e", "cluster_provider=existing"],
            "set -e cluster_kubeconfig=<file>, or the environment variable KUBECONFIG",
        ),
        ([*existing("/no/such")], "cluster_kubeconfig names '/no/such', and there is no file /no/such"),
        (["-e", "cluster_expected_host=api.lab.example"], "cluster_expected_host is 'api.lab.example', and kubeconfig"),
    ],
    ids=["provider", "no kubeconfig", "no file", "another host"],
)
def test_a_wrong_choice_is_one_error_and_leaves_no_record(
    lab: Lab, rehearsal: Any, words: list[str], message: str
) -> None:
    if "expected" in words[-1]:
        words = [*words, *existing(rehearsal.kubeconfig)]
    home = lab.folder / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_bytes(Path(rehearsal.kubeconfig).read_bytes())
    done = lab.run("acquire", *words, env={"HOME": str(home)})
    assert done.code == 2 and message in done.flat(), done.output
    assert not (lab.run_dir / "cluster.yml").exists()


def test_a_crash_while_acquiring_is_made_good_by_release_and_somebody_elses_instance_stays(lab: Lab) -> None:
    """cluster.yml says ``acquiring`` and nothing more: whose the instance is only it knows itself."""
    data = ["-e", f"rehearsal_data_dir={lab.folder}/data"]
    up = ["-e", '{"rehearsal_components": []}', "-e", "fake_gpu_nodes=0"]
    assert lab.run("acquire", *data, *up).code == 0
    taken = lab.clusters["sutest"]
    assert taken["owned"] is True and taken["name"] == RUN_ID and Path(taken["data_dir"]).is_dir()

    for instance_of, stays in (("c-another", True), (RUN_ID, False)):
        marker = Path(taken["data_dir"]) / "instance.json"
        content = files.read_json(marker)
        files.write_json(marker, {**content, "owner": instance_of})
        begun = {"provider": "rehearsal", "name": RUN_ID, "state": "acquiring", "owned": False}
        begun |= {"simulated": False, "simulated_writers": []}
        files.write_yaml(
            lab.run_dir / "cluster.yml", {"schema": "cluster/2", "clusters": {"sutest": begun, "driver": begun}}
        )
        done = lab.run("release", *data)
        assert done.code == 0, done.output
        assert Path(taken["data_dir"]).exists() is stays
        assert ("is of run c-another and stays" in done.flat()) is stays
        assert lab.clusters["sutest"]["state"] == "released"
    assert lab.run("release", *data).code == 0, "a second release has nothing to do"
    assert not list((lab.folder / "data").glob("[!.]*"))


# The same by GIVE_BACK and with the phases: test_giving_back.py.
@pytest.mark.long
def test_a_kept_cluster_stays_until_somebody_says_that_it_is_not_kept(lab: Lab) -> None:
    words = ["-e", f"rehearsal_data_dir={lab.folder}/data", "-e", "cluster_owner=ann", "-e", "cluster_lifetime=2h"]
    keep = ["-e", "cluster_keep=true"]
    up = ["-e", '{"rehearsal_components": []}', "-e", "fake_gpu_nodes=0"]
    done = lab.run("acquire,release", *words, *keep, *up)
    assert done.code == 0, done.output
    record = lab.clusters["sutest"]
    assert record["state"] == "acquired" and record["kept"] is True and Path(record["data_dir"]).is_dir()
    assert "stays up (cluster_keep), owned by ann, for performance test" in done.flat()
    hours = (moment(record["expires"]) - moment(record["taken"])) / 3600
    assert hours == 2.0, "the cluster's end stands in its record"
    with Client.from_kubeconfig(record["kubeconfig"]) as client:
        said = clusters_of_run.read_annotations(client)
    told = {key: record[key] for key in ("owner", "purpose", "taken", "expires")}
    assert said == {"run": RUN_ID, **told}, "the cluster itself says it too"
    lab.play.write_text(PLAY.replace("  tasks:", "  tags: [release]\n  tasks:"), encoding="utf-8")
    done = lab.run("release", *words, *keep, "--tags", "release")
    assert done.code == 2 and "it is kept (cluster_keep) until" in done.flat(), done.output
    assert lab.clusters["sutest"]["state"] == "acquired" and Path(record["data_dir"]).is_dir()
    done = lab.run("release", *words, "-e", "cluster_keep=false", "--tags", "release")
    assert done.code == 0 and lab.clusters["sutest"]["state"] == "released", done.output
    assert not Path(record["data_dir"]).exists()


def wish_of_another(lab: Lab, rehearsal: Any) -> lock_session.LockSpec:
    return lock_session.LockSpec.of(
        {
            "kubeconfig": rehearsal.kubeconfig,
            "context": "",
            "namespace": "default",
            "lock_file": str(lab.folder / "lock-another.json"),
            "run_id": "c-another",
            "owner": "ann",
            "purpose": "scale, preset huge",
            "duration": 30,
            "timeout": 30.0,
            "caller_pid": os.getpid(),
        },
        0,
    )


def test_nothing_is_made_or_counted_on_a_standing_cluster_before_the_lock_is_ours(lab: Lab, rehearsal: Any) -> None:
    another = wish_of_another(lab, rehearsal)
    data = Path(rehearsal.info["data_dir"])
    words = ["-e", f"rehearsal_name={data.name}", "-e", f"rehearsal_data_dir={data.parent}"]
    words += ["-e", "fake_gpu_pool=c-nodes", "-e", "fake_gpu_nodes=1"]
    lock_session.acquire_cluster_lock(another, StepDirectory(None), lambda _text: None)
    try:
        done = lab.run("acquire", *words, "-e", "cluster_lock_timeout=1")
        assert done.code == 2 and "was not free within 1 s" in done.flat(), done.output
        assert list(lab.run_dir.glob("*__fake_gpu__*")) == []
        assert "nodes" not in lab.clusters["sutest"], "nobody counted them"
    finally:
        lock_session.release_cluster_lock(another)
    done = lab.run("acquire,release", *words)
    assert done.code == 0, done.output
    assert lab.clusters["sutest"]["objects"] is True, "they are held until a clean-up has seen none"
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        client.delete(client.kind("v1", "Node"), "c-nodes-0000")


def test_runs_on_a_cluster_that_is_not_theirs_take_turns_and_see_whose_turn_it_is(lab: Lab, rehearsal: Any) -> None:
    another = wish_of_another(lab, rehearsal)
    lock_session.acquire_cluster_lock(another, StepDirectory(None), lambda _text: None)
    try:
        done = lab.run("acquire", *existing(rehearsal.kubeconfig), "-e", "cluster_lock_timeout=1")
        assert done.code == 2, done.output
        assert "lock: place 1 of 1 in the queue for 127.0.0.1:" in done.flat()
        assert "run c-another (ann) holds it for scale, preset huge since" in done.flat()
        assert "was not free within 1 s (cluster_lock_timeout)" in done.flat()
    finally:
        lock_session.release_cluster_lock(another)
    done = lab.run("acquire,release", *existing(rehearsal.kubeconfig))
    assert done.code == 0, done.output
    assert f"lock: run {RUN_ID} holds the lock on 127.0.0.1:" in done.flat()
    assert files.read_json(lab.run_dir / "lock-sutest.json")["state"] == "released"
    told = lock_session.lock_holder_and_queue(rehearsal.kubeconfig, "", "default")
    assert (told["holder"], told["waiting"]) == (None, [])
