"""Leasing as a user does it: real processes, a real HTTPS server that behaves like QUADS."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import Acquisition
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_release import terminate_lease_assignments
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSpec
from playbook import PROGRAM, ROOT, begin, environment, play, run_dirs
from quads_simulator import server as servers
from quads_simulator.clock import Clock, coming_saturday
from quads_simulator.core import API, Simulator
from quads_simulator.lab import Config, host_names

#: A password that must appear nowhere.
CANARY = "canary-7Hq2-not-a-word"
NAMES = host_names()
SATURDAY = coming_saturday()
SUNDAY_EVENING = f"{datetime.fromtimestamp(SATURDAY + 2 * 86400, timezone.utc):%Y-%m-%d}T19:00:00Z"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., servers.Running]]:
    """Start servers whose machines are ready after a second."""
    running: list[servers.Running] = []

    def make(**config: Any) -> servers.Running:
        quick = {"utc_offset": 120, "move_delay": 0.5, "validate_delay": 0.5, "inventory_period": 0.5}
        simulator = Simulator(Config(**{**quick, **config}), Clock(SATURDAY, speed=1.0))
        for name in ("jo", "ann"):
            simulator.access.add(f"{name}@example.com", CANARY)
        running.append(servers.start(simulator, tmp_path / f"server-{len(running)}"))
        return running[-1]

    yield make
    for one in running:
        one.stop()


def words(server: servers.Running, **more: str) -> list[str]:
    """The words of a command line that say where and who."""
    given = {
        "quads_lease_api_url": server.url,
        "quads_lease_ca_path": str(server.ca),
        "quads_lease_username": "jo@example.com",
        "quads_lease_wait_interval": "0.5",
        **more,
    }
    return [word for name, value in given.items() for word in ("-e", f"{name}={value}")]


SECRET = {"SEATRIAL_QUADS_LEASE_PASSWORD": CANARY}


def active(server: servers.Running) -> list[dict[str, Any]]:
    return [one for one in servers.state(server.simulator)["assignments"] if one["active"]]


def graph(*sources: Path) -> dict[str, Any]:
    """What ansible-inventory says about these sources."""
    given = [word for source in sources for word in ("-i", str(source))]
    program = PROGRAM.with_name("ansible-inventory")
    done = subprocess.run(
        [str(program), *given, "--list"], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"printed": done.stdout + done.stderr}


def test_machines_are_leased_shown_and_given_back_from_another_machine(start, tmp_path):
    server = start()
    done = play(
        *("-vvv", "-e", "preset=six_nodes", *words(server)),
        artifacts=tmp_path / "here",
        project="lease",
        env={**SECRET, "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "1"},
    )
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(tmp_path / "here")
    lease = yaml.safe_load((run_dir / "lease.yml").read_text())
    assert [one["hosts"] for one in active(server)] == [lease["hosts"]]
    assert f"held      lease {lease['lease_id']}: 6 machines in cloud02, until {SUNDAY_EVENING}" in done.output

    found = graph(run_dir / "lease.quads.yml")
    assert [len(found[name]["hosts"]) for name in ("bastion", "controlplane", "worker")] == [1, 3, 2]
    about = found["_meta"]["hostvars"][lease["hosts"][0]]
    assert about["bmc_address"] == {"__ansible_unsafe": f"mgmt-{lease['hosts'][0]}"}  # no template, Ansible says
    assert list(about["quads_macs"]) == ["em1", "em2", "em3", "em4", "em5"]

    command = shlex.split(lease["release"])
    assert {"quads_lease_id": lease["lease_id"]}.items() <= json.loads(command[5]).items()
    back = play(*command[2:], artifacts=tmp_path / "there", project="lease", env=SECRET)
    assert back.code == 0, back.output
    assert active(server) == []

    printed = done.output + back.output + found["printed"]
    files = [path for folder in ("here", "there") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    everything = printed + "".join(path.read_text(errors="replace") for path in files)
    assert CANARY not in everything
    assert f"lab@{lease['parts'][0]['ticket']}" not in everything  # the BMCs' password


@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)], ids=["ctrl-c", "kill"]
)
def test_a_run_that_is_ended_while_it_leases_leaves_nothing(start, tmp_path, monkeypatch, how):
    server = start()
    server.simulator.faults.ticket_delay = 3.0
    monkeypatch.setenv("SEATRIAL_QUADS_LEASE_PASSWORD", CANARY)
    process = begin(
        "-e", "preset=three_nodes", *words(server), artifacts=tmp_path, log=tmp_path / "log", project="lease"
    )
    _until(lambda: ("POST", f"{API}/assignments/self") in server.simulator.received, 240)
    (run_dir,) = run_dirs(tmp_path)
    assert "pending:\n  part: 1" in (run_dir / "lease.yml").read_text()
    assert "--tags release" in (run_dir / "GIVE_BACK").read_text()
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.kill()
    process.wait(120)
    # The module is told, waits for the answer that is under way, and gives back.
    _until(lambda: server.simulator.assignments and not active(server), 240)
    _until(lambda: "state: released" in (run_dir / "lease.yml").read_text(), 240)


def _until(true: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


def test_two_tenants_at_once_never_both_own_a_machine(start):
    server = start()
    server.simulator.faults.race_window = 0.3
    results: dict[str, Any] = {}

    def run(name: str) -> None:
        given = {
            "api_url": server.url,
            "username": f"{name}@example.com",
            "password": CANARY,
            "ca_path": str(server.ca),
            "retry_time": 30.0,
        }
        order = LeaseSpec.from_params({"lease_id": f"race-{name}", "hosts": NAMES[:3]})
        one = quads_options.client_from_params(given, secret=True)
        try:
            results[name] = Acquisition(one, order, LeaseFile(None, order.lease_id, "", name), print).run()
        except SeatrialError as error:
            results[name] = error
        else:
            assert set(results[name].lease.hosts) == set(NAMES[:3])

    threads = [threading.Thread(target=run, args=(name,)) for name in ("jo", "ann")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    owners = [name for name, one in results.items() if not isinstance(one, SeatrialError)]
    assert len(results) == 2
    assert len(owners) <= 1, results
    assert [one["owner"] for one in active(server)] == owners


def test_a_server_that_is_not_known_is_refused_before_it_gets_a_password(start):
    server = start()
    given = {"api_url": server.url, "username": "jo@example.com", "password": CANARY}
    with pytest.raises(AccessError, match="certificate.*configure the CA"):
        quads_options.client_from_params(given, secret=True).log_in()
    with pytest.raises(InputError, match="are not sent over http://"):
        quads_options.client_from_params({**given, "api_url": "http://127.0.0.1:1"}, secret=True)
    quads_options.client_from_params({**given, "ca_path": str(server.ca)}, secret=True).log_in()
    assert [entry[1] for entry in server.simulator.log] == ["/api/v3/login"]


def _lease(server: servers.Running, lease_id: str, **wanted: Any) -> list[str]:
    given = {"api_url": server.url, "username": "jo@example.com", "password": CANARY, "ca_path": str(server.ca)}
    one = quads_options.client_from_params(given, secret=True)
    order = LeaseSpec.from_params({"lease_id": lease_id, **wanted})
    got = Acquisition(one, order, LeaseFile(None, lease_id, server.url, "jo"), print).run()
    return got.lease.hosts


def test_several_labs_are_one_inventory_and_a_stale_one_is_refused(start, tmp_path):
    first, second = start(), start()
    hosts = _lease(first, "lab-one", hosts=NAMES[:3]), _lease(second, "lab-two", hosts=NAMES[6:8])
    labs = tmp_path / "labs"
    labs.mkdir()
    roles = [
        {"name": "bastion", "hosts": ["s01-h02-000-r640"]},
        {"name": "controlplane", "where": {"disks.disk_type": "nvme"}, "count": 1},
        {"name": "hypervisor", "count": "rest"},
    ]
    for number, server in enumerate((first, second), start=1):
        document = {
            "plugin": "perfscale.seatrial.quads",
            "api_url": server.url,
            "ca_path": str(server.ca),
            "username": "jo@example.com",
            "lease_id": "lab-one" if number == 1 else "lab-two",
            "group": f"lab{number}",
            "roles": roles if number == 1 else [],
            "keyed_groups": [{"key": "quads_model", "prefix": "model"}],
            "cache": True,
            "cache_plugin": "jsonfile",
            "cache_connection": str(tmp_path / "cache"),
        }
        (labs / f"{number}.quads.yml").write_text(yaml.safe_dump(document))
    time.sleep(1.2)  # until the machines are in their clouds
    for server in (first, second):
        servers.steer(server.simulator, {"write_inventories": True})
    found = graph(labs)
    assert sorted(found["lab1"]["hosts"]) == hosts[0]
    assert found["bastion"]["hosts"] == [NAMES[1]]
    assert found["controlplane"]["hosts"] == [NAMES[0]]
    assert found["hypervisor"]["hosts"] == [NAMES[2]]
    assert sorted(found["lab2"]["hosts"]) == hosts[1]
    assert sorted(found["model_R650"]["hosts"]) == hosts[1]

    asked = len(first.simulator.log)
    assert graph(labs)["bastion"] == found["bastion"]
    assert len(first.simulator.log) == asked  # from the cache

    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    nodes = first.simulator.inventories["cloud02"].replace("lab@4000", "lab@3999")
    first.simulator.config.inventory_period = 10**9
    first.simulator.inventories["cloud02"] = nodes
    program = PROGRAM.with_name("ansible-inventory")
    done = subprocess.run(
        [str(program), "-i", str(labs / "1.quads.yml"), "--graph"],
        cwd=ROOT,
        env=environment(ROOT, {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode != 0
    assert "of another ticket than 4000" in " ".join(done.stderr.split())


# A whole run with leased machines is in test_bare_metal.py.
@pytest.mark.long
def test_a_project_leases_before_its_cluster_and_gives_back_after_it(start, tmp_path):
    server = start()
    choice = ["-e", "cluster_machines=quads", "-e", "quads_lease_count=2", *words(server)]
    done = play("--tags", "lease", *choice, artifacts=tmp_path, env=SECRET)
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(tmp_path)
    assert [len(one["hosts"]) for one in active(server)] == [2]
    assert yaml.safe_load((run_dir / "run.yml").read_text())["phases"]["lease"]["status"] == "passed"
    back = subprocess.run(
        ["bash", "-c", (run_dir / "GIVE_BACK").read_text()],
        cwd=tmp_path,
        env=environment(tmp_path, {**SECRET, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert back.returncode == 0, back.stdout + back.stderr
    assert active(server) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quads_lease_api_url": ""}, "quads_lease_api_url is empty"),
        ({"quads_lease_username": "jo"}, "set it to the e-mail address"),
    ],
    ids=["lab", "user"],
)
def test_a_request_that_cannot_be_right_is_refused_before_anything_is_asked(start, tmp_path, given, message):
    server = start()
    done = play("--tags", "acquire", *words(server, **given), artifacts=tmp_path, project="lease", env=SECRET)
    assert done.code != 0
    assert message in done.flat(), done.output
    assert server.simulator.log == []


# Which settings a later session takes over is in test_resumed_extra_vars.py.
@pytest.mark.long
def test_a_wrong_setting_of_a_run_that_took_nothing_does_not_stick_to_its_directory(start, tmp_path):
    server = start()
    wrong = ["-e", "preset=three_nodes", "-e", '{"quads_lease_filters": {"model": "R65O"}}', *words(server)]
    done = play("--tags", "acquire", *wrong, artifacts=tmp_path, project="lease", env=SECRET)
    assert done.code != 0
    assert "The lab has no R65O (did you mean 'R650'?)" in done.flat(), done.output
    (run_dir,) = run_dirs(tmp_path)
    again = ["--tags", "acquire", "-e", f"run_dir={run_dir}", *words(server)]
    done = play(*again, artifacts=tmp_path, project="lease", env=SECRET)
    assert done.code == 0, done.output
    assert "Not taken over from the session that failed: -e quads_lease_filters" in done.flat()
    assert [len(one["hosts"]) for one in active(server)] == [3]
    # What holds something goes by what it was given: no word of where and who.
    back = play("--tags", "release", "-e", f"run_dir={run_dir}", artifacts=tmp_path, project="lease", env=SECRET)
    assert back.code == 0, back.output
    assert active(server) == []


def test_what_was_adopted_is_released_without_a_password(start, tmp_path):
    server = start()
    _lease(server, "the-team", hosts=NAMES[:2])
    done = play("-e", "quads_lease_adopt=cloud02", *words(server), artifacts=tmp_path, project="lease")
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(tmp_path)
    back = play("--tags", "release", "-e", f"run_dir={run_dir}", artifacts=tmp_path, project="lease")
    assert back.code == 0, back.output
    assert "they are not released" in back.flat()
    assert yaml.safe_load((run_dir / "lease.yml").read_text())["state"] == "released"
    assert len(active(server)) == 1


def test_a_release_that_fails_says_so_and_nothing_of_another_failure(start, tmp_path):
    server = start()
    _lease(server, "not-mine", hosts=NAMES[:2])
    choice = ["--tags", "release", "-e", "quads_lease_id=not-mine", *words(server)]
    wrong = {"SEATRIAL_QUADS_LEASE_PASSWORD": "another"}
    done = play(*choice, artifacts=tmp_path, project="lease", env=wrong)
    assert done.code != 0
    assert "The machines could not be released: jo@example.com can't log in" in done.flat(), done.output
    assert "Release them with: ansible-playbook" in done.flat()
    assert "failed too" not in done.output
    assert len(active(server)) == 1


def test_leases_given_back_directly_leave_the_server_empty(start):
    server = start()
    _lease(server, "by-hand", count=2)
    given = {"api_url": server.url, "username": "jo@example.com", "password": CANARY, "ca_path": str(server.ca)}
    assert terminate_lease_assignments(quads_options.client_from_params(given, secret=True), "by-hand") == [1]
    assert active(server) == []
