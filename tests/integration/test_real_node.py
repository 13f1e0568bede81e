"""A real node: pods that run in containers, and a machine on which nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    build_real_node_images,
    cluster_lifecycle,
    go_build,
    instance_dir,
    instance_processes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import image_preload
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from playbook import play, run_dirs

REAL = "perfscale.seatrial/real"
IMAGE = "localhost/seatrial/base:trixie"
NODE = support.COMPONENTS / "node"
#: A pull of the image from the registry of the instance.
PULLED = "localhost:5000/seatrial/base:trixie"
TOLERATION = {"key": REAL, "operator": "Exists"}
PULL = image_preload.ImagePreloadSpec("default", PULLED, "t1-abcdef", 300, {REAL: "true"}, (TOLERATION,))
#: What kubelet, containerd and CNI plugins create on a machine without such namespaces.
FOLDERS = (
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)

#: Real nodes in a row, of which some processes are killed at random.
ROUNDS = 20
#: Seconds within which a cluster with a node has started on an idle machine.
START_UP = 8.0
#: The same of a node, and the programs that are no part of one.
NODE_START_UP = 3.0
OF_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "registry")

TRAINER = ["-m", "tuning.sft_trainer"]

LACKING = suite_prerequisites.real_node_lacks()
needs_a_node = pytest.mark.skipif(bool(LACKING), reason=LACKING)


def wait_for(truth: Callable[[], Any], what: str, timeout: float = 300) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := truth()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.1)
    return found


def state_of_the_machine() -> dict[str, Any]:
    """Everything that a node could change."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "mounts": sorted(line.partition(" ")[2] for line in mounts),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "routes": re.findall(r"10\.(?:144|96)\.\S+", Path("/proc/net/fib_trie").read_text()),
        "settings": {name: (Path("/proc/sys") / name).read_text() for name in SETTINGS},
        "folders": [one for one in FOLDERS if os.path.lexists(one)],
        "host name": os.uname().nodename,
    }


def descendants(pid: int) -> dict[int, str]:
    """Return a process and all below it, with their programs."""
    parents = {one: processes.parent_pid_of(one) for one in processes.list_pids()}
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {one for one, parent in parents.items() if parent in found}
    return {one: os.path.basename(processes.executable_of(one) or "") for one in found}


def node_processes(options: cluster_lifecycle.RehearsalOptions) -> dict[int, str]:
    """Return the processes of the node; that of "node run" is called run."""
    (pid,) = [one.pid for one in instance_processes.list_running_processes(options.instance.path) if one.name == "node"]
    return {**descendants(pid), pid: "run"}


def image_folders(run: int) -> list[Path]:
    """Return the folders in the cache of the images that "node run" was given."""
    arguments = Path(f"/proc/{run}/cmdline").read_text().split("\0")
    return [Path(one.removeprefix("-image=")).parent for one in arguments if one.startswith("-image=")]


def pod(name: str, script: str, tolerated: bool = True, **more: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["bash", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {REAL: "true"},
        "tolerations": [{"key": REAL, "operator": "Exists"}] if tolerated else [],
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}],
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def job(name: str, script: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": pod(name, script, hostname="one", subdomain=name)["spec"],
    }
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"backoffLimit": 0, "template": template},
    }


def pods_of(client: Client, name: str) -> list[dict[str, Any]]:
    return client.list(client.kind("v1", "Pod"), "default", f"app={name}")[0]


def ended(client: Client, name: str, wanted: str = "Complete") -> bool:
    found = client.get(client.kind("batch/v1", "Job"), name, "default") or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(one["type"] == wanted and one["status"] == "True" for one in conditions)


def run_job(client: Client, name: str, script: str) -> str:
    """Run a Job on the real node to its end; return the log of its pod."""
    client.create(job(name, script))
    wait_for(lambda: ended(client, name), f"Job {name} to complete")
    (made,) = pods_of(client, name)
    return client.text(f"/api/v1/namespaces/default/pods/{made['metadata']['name']}/log")


@pytest.mark.skipif(not shutil.which("go"), reason="checks the Go program with the go on PATH")
@pytest.mark.parametrize(
    "command",
    [
        # Flags as the program was built, or all packages are compiled again. vet reads all dependencies: minutes.
        pytest.param(["test", "-vet=off", *go_build.COMPILING, "."], id="unit tests"),
        pytest.param(["vet", "."], id="vet", marks=pytest.mark.long),
    ],
)
def test_the_go_program_passes_its_unit_tests_and_vet(command: list[str]) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(["go", *command], cwd=NODE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_a_node
@pytest.mark.parametrize(
    "victim",
    [
        "run",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("node", "kubelet", "containerd", "bash")),
    ],
)
def test_pods_run_on_a_real_node_and_nothing_of_it_is_left(victim: str, own_instance) -> None:
    before = state_of_the_machine()
    options = own_instance(f"real-{victim}", components=["node", "registry"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    assert info["ready"]
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        service = {"clusterIP": "None", "selector": {"app": "good"}}
        meta = {"name": "good", "namespace": "default"}
        client.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
        # Instances share the files of images: what a pod changes is its business only.
        script = (
            "rm /bin/ls; echo changed >> /etc/os-release; touch /usr/new; echo written > /data/x;"
            " cat /data/x /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null;"
            " for i in $(seq 600); do getent hosts one.good && break; sleep 0.2; done"
        )
        log = run_job(client, "good", script).split()
        assert log[:2] == ["written", str(64 * 2**20)]
        assert log[2].startswith("10.144.1.") and log[3] == "one.good.default.svc.cluster.local"

        # The registry has the same image under another name: it is pulled, once.
        for there in (False, True):
            (pulled,) = image_preload.preload_image_on_nodes(client, PULL, support.quiet)
            assert (pulled["there"], bool(pulled["seconds"])) == (there, not there)

        # A kubelet keeps GPUs that were added to the status of its node.
        gpus = simulated_node_pool.NodePoolSpec(
            0, simulated_node_pool.NodeShape(gpus=2), run_id="t1-abcdef", add_to=f"{REAL}=true"
        )
        assert fake_nodes.create_fake_nodes(client, gpus, 120, support.quiet)["gpus_added_to"] == ["real-0"]
        wants = pod("trainer", "exit 0")
        wants["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
        client.create(wants)
        client.create(pod("sleeper", "sleep 600; exit 1"))
        client.create(pod("foreign", "true", tolerated=False))
        kind = client.kind("v1", "Pod")

        def status(name: str) -> dict[str, Any]:
            return (client.get(kind, name, "default") or {}).get("status") or {}

        wait_for(lambda: status("sleeper").get("phase") == "Running", "the pod to run")
        wait_for(lambda: status("trainer").get("phase") == "Succeeded", "the pod with GPUs to end")
        assert fake_nodes.remove_fake_nodes(client, gpus, 120, support.quiet)["changed"]
        # A load for simulated nodes never lands on it.
        refused = wait_for(lambda: status("foreign").get("conditions"), "the scheduler's refusal")
        assert "untolerated taint(s)" in refused[0]["message"]

    found = node_processes(options)
    folders = image_folders(next(pid for pid, name in found.items() if name == "run"))
    assert len(folders) == 2
    assert set(found.values()) >= {"run", "node", "containerd", "kubelet", "containerd-shim-runc-v2", "pause", "bash"}
    ticks = {pid: processes.start_ticks_of(pid) for pid in found}
    os.kill(next(pid for pid, name in found.items() if name == victim), signal.SIGKILL)
    if victim != "bash":
        # A dead part is a dead machine: the node goes down as a whole, and comes up with its images.
        wait_for(lambda: all(processes.start_ticks_of(pid) != ticks[pid] for pid in found), "the node to end")
        assert cluster_lifecycle.create_or_repair_instance(options, support.quiet)["changes"] == ["started node"]
        with Client.from_kubeconfig(info["kubeconfig"]) as client:
            assert run_job(client, "again", "echo again") == "again\n"
        found = node_processes(options)
        ticks = {pid: processes.start_ticks_of(pid) for pid in found}
        os.kill(next(pid for pid, name in found.items() if name == victim), signal.SIGKILL)
    cluster_lifecycle.remove_instance(options, support.quiet)
    assert [name for pid, name in found.items() if processes.start_ticks_of(pid) == ticks[pid]] == []
    assert instance_dir.instance_control_groups(options.instance.path) == []
    assert not options.instance.path.exists()
    assert state_of_the_machine() == before
    for one in folders:
        assert (
            build_real_node_images.tree_metadata_checksum(one / "tree") == files.read_json(one / "image.json")["tree"]
        )


@needs_a_node
@pytest.mark.long
def test_memory_is_limited_and_a_deleted_folder_is_cleaned_up_after(own_instance) -> None:
    before = state_of_the_machine()
    options = own_instance("real-limit", components=["node"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    assert cluster_lifecycle.create_or_repair_instance(options, support.quiet)["changes"] == []
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        client.create(pod("greedy", "head -c 200M /dev/zero | tail"))
        kind = client.kind("v1", "Pod")

        def reason() -> str:
            found = ((client.get(kind, "greedy", "default") or {}).get("status") or {}).get("containerStatuses") or []
            return str(found[0]["state"].get("terminated", {}).get("reason", "")) if found else ""

        wait_for(reason, "the container to end")
        assert reason() == "OOMKilled"
    os.kill(next(pid for pid, name in node_processes(options).items() if name == "run"), signal.SIGKILL)
    shutil.rmtree(options.instance.path)
    assert cluster_lifecycle.remove_instance(options, support.quiet)["changed"]
    assert instance_dir.instance_control_groups(options.instance.path) == []
    assert state_of_the_machine() == before


def kill_some(found: dict[int, str], chance: random.Random, least: int) -> str:
    """Kill up to two of the processes, at least ``least``; return their programs."""
    victims = chance.sample(sorted(found), min(chance.randint(least, 2), len(found)))
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return ", ".join(found[pid] for pid in victims) or "nothing"


def killed_at_work(options: cluster_lifecycle.RehearsalOptions, chance: random.Random) -> tuple[dict[int, str], str]:
    """Run pods on a node and kill some of its processes; return those that ran, and what was done."""
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        assert run_job(client, "good", "echo hello") == "hello\n"
        client.create(pod("sleeper", "sleep 600"))
        kind = client.kind("v1", "Pod")

        def phase() -> str:
            return str(((client.get(kind, "sleeper", "default") or {}).get("status") or {}).get("phase"))

        wait_for(lambda: phase() == "Running", "the pod to run")
    found = node_processes(options)
    # Now and then nothing: a node that is removed as it should be.
    return found, f"killed {kill_some(found, chance, chance.choice([0, 1]))} at work"


def killed_at_start(options: cluster_lifecycle.RehearsalOptions, chance: random.Random) -> tuple[dict[int, str], str]:
    """Kill what starts a cluster, or what it has started, at any moment; return what ran then, and what was done."""

    def all_processes() -> dict[int, str]:
        roots = [one.pid for one in instance_processes.list_running_processes(options.instance.path)]
        return {pid: name for root in roots for pid, name in descendants(root).items()}

    starter = support.drive(options)
    assert starter.stdout is not None and starter.stdout.readline() == "go\n"
    first, moment = chance.choice([("", START_UP), ("node", NODE_START_UP)])
    wait_for(lambda: not first or first in all_processes().values() or starter.poll() is not None, "the node to begin")
    moment = chance.uniform(0, moment)
    time.sleep(moment)
    found = all_processes()
    of_node = {pid: name for pid, name in found.items() if name not in OF_CONTROL_PLANE}
    done = kill_some(of_node if first else {starter.pid: "the starter", **found}, chance, 1)
    # It repairs what was killed, or fails.
    starter.wait(timeout=600)
    when = f"{moment:.1f} s after the beginning of the start{' of the node' if first else ''}"
    return {**found, **all_processes()}, f"killed {done} {when}"


@needs_a_node
@pytest.mark.long
def test_nothing_is_left_of_any_round(own_instance) -> None:
    before = state_of_the_machine()
    chance = random.Random()
    for number in range(1, ROUNDS + 1):
        options = own_instance(f"round-{number}", components=["node", "registry"])
        found, done = (killed_at_start if number % 2 else killed_at_work)(options, chance)
        ticks = {pid: processes.start_ticks_of(pid) for pid in found}
        print("round", number, done, flush=True)
        cluster_lifecycle.remove_instance(options, support.quiet)
        assert [name for pid, name in found.items() if ticks[pid] and processes.start_ticks_of(pid) == ticks[pid]] == []
        assert instance_processes.list_running_processes(options.instance.path) == []
        assert instance_dir.instance_control_groups(options.instance.path) == [] and not options.instance.path.exists()
        assert state_of_the_machine() == before


@needs_a_node
@pytest.mark.long
@pytest.mark.parametrize("selector", ["", f"{REAL}=true"], ids=["mixed", "real"])
def test_a_run_marks_as_simulated_only_what_ran_on_simulated_nodes(
    selector: str, rehearsal_folder: Path, tmp_path: Path
) -> None:
    """Trainings that tolerate the taint of the real node; without a selector they run on both nodes."""
    settings = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "rehearsal_nodes_real": 1,
        "fake_gpu_nodes": 0 if selector else 1,
        "fake_gpu_cpu": os.cpu_count(),
        "fake_gpu_node_memory_gib": 16,
        "fake_gpu_node_selector": selector,
        "fine_tuning_count": 8,
        "fine_tuning_gpus": 1 if selector else 0,
        "fine_tuning_cpu": "100m",
        "fine_tuning_memory": "64Mi",
        "fine_tuning_shared_memory": "",
        "fine_tuning_timeout": 120,
        "fine_tuning_image": IMAGE,
        # A kubelet may not report that a shorter container ran.
        "fine_tuning_command": ["bash", "-c", "sleep 2; echo '{\"train_runtime\": 1.5}'"],
        "fine_tuning_node_selector": dict([selector.split("=")]) if selector else {},
        "fine_tuning_tolerations": [{"key": REAL, "operator": "Exists"}],
    }
    done = play("-e", json.dumps(settings), artifacts=tmp_path)
    assert done.code == 0, done.output
    (point,) = (run_dirs(tmp_path)[0] / "points").iterdir()
    document = files.read_json(point / "kpis.json")
    kpis = {one["name"]: one for one in document["kpis"]}
    training = {row["simulated"] for row in files.read_json_lines(point / "training.jsonl")}
    assert document["labels"]["ran"]["workload_nodes"] == ("real" if selector else "mixed")
    assert kpis["time_to_running_p95"]["value"] is not None
    # The GPUs of the real node are in its status only: no device is behind them.
    hours = {f"gpu_hours_{one}" for one in ("requested", "used", "per_million_tokens")}
    of_gpus = {*hours, "train_tokens_per_second_per_gpu"} if selector else set()
    wrong = {name for name, one in kpis.items() if one["simulated"] is not name.endswith("_simulated")}
    assert wrong == of_gpus
    if selector:
        assert training == {False} and not any(name.endswith("_simulated") for name in kpis)
    else:
        parts = [kpis[f"time_to_running_p95{part}"]["of"] for part in ("", "_simulated")]
        assert training == {False, True} and sum(parts) == 8 and all(parts)


@needs_a_node
@pytest.mark.long
def test_a_tiny_model_is_trained_for_real_and_nothing_is_left(rehearsal_folder: Path, tmp_path: Path) -> None:
    """LoRA and all weights in 1 and 2 pods, with the image of component training-image, which the first run makes."""
    before = state_of_the_machine()
    transform = tmp_path / "twice.py"
    transform.write_text("def transform(row):\n    return [{'text': row['text']}] * 2\n", encoding="utf-8")
    given: dict[str, Any] = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "fine_tuning_dataset_transform": str(transform),
        "fine_tuning_files": ["training_logs.jsonl", "**/adapter_model.safetensors"],
        "fine_tuning_hyper_parameters.save_strategy": "steps",
        "fine_tuning_hyper_parameters.save_steps": 10,
    }
    if os.geteuid() == 0:
        # A user without a name or a home, as those of pods on OpenShift.
        given["fine_tuning_security_context"] = {"runAsUser": 1000660000, "runAsGroup": 0, "runAsNonRoot": True}
    given = {"preset": "light_real", "overrides": given}
    done = play("-e", json.dumps(given), artifacts=tmp_path / "artifacts", timeout=2400)
    assert done.code == 0, done.output
    assert "PASS" in done.output
    assert state_of_the_machine() == before
    (run,) = run_dirs(tmp_path / "artifacts")
    (pulls,) = run.glob("*__image_preload__main/image_pulls.json")
    (node,) = files.read_json(pulls)["nodes"]
    assert (node["node"], node["there"], node["simulated"]) == ("real-0", False, False)
    assert node["seconds"] > 0 and node["bytes"] > 100_000_000  # pulled from the registry, of which it was not there
    downloaded = min(run.glob("*__storage__present/downloads.json"))
    sizes = {one["name"]: one["downloaded"] for one in files.read_json(downloaded)["downloads"]}
    assert sizes["tiny-llama"] > 3_000_000 and sizes["tiny-text.jsonl"] > 50_000
    report = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert "http://files.seatrial-files.svc.cluster.local:8080/tiny-llama" in report
    points = sorted((run / "points").iterdir())
    found = []
    for point in points:
        (row,) = files.read_json_lines(point / "training.jsonl")
        document = files.read_json(point / "kpis.json")
        kpis = {one["name"]: one for one in document["kpis"]}
        assert row["error"] is None and row["simulated"] is False
        assert document["labels"]["ran"]["workload_nodes"] == "real"
        assert [name for name, one in kpis.items() if one["simulated"]] == []
        # With max_steps the program extrapolates its own figure from the first batch: it may be less or more.
        assert kpis["train_tokens_per_second"]["value"] > 0 and row["figures"]["dataset_tokens_per_sample"] > 1
        counted = row["figures"]["dataset_tokens_per_sample"] * row["figures"]["train_samples_per_second"]
        assert kpis["dataset_tokens_per_second"]["value"] == pytest.approx(counted, rel=0.01)
        assert kpis["time_to_running_p95"]["value"] > 0
        # Samples, steps and batch agree only if the pods of a job trained together.
        figures = row["figures"]
        rate = figures["train_steps_per_second"] * figures["total_batch_size"]
        assert figures["train_samples_per_second"] == pytest.approx(rate, rel=0.01)
        brought = files.read_json(point / "files" / "files.json")["files"]
        names = {Path(one["name"]).name for one in brought}
        lora = {"adapter_model.safetensors"} if point.name in ("001", "002") else set()
        assert names == {"training_logs.jsonl"} | lora
        for one in brought:
            assert files.sha256_of(point / "files" / one["name"]) == one["sha256"]
        found.append((figures["total_batch_size"], len(row["loss"]["points"])))
        if point.name in ("003", "004"):  # all weights learn within ten steps, of LoRA's few it is not sure
            losses = [loss for _epoch, loss in row["loss"]["points"]]
            assert losses[-1] < losses[0] - 0.1
    assert found == [(4, 10), (8, 10), (4, 10), (8, 10)]


@needs_a_node
@pytest.mark.long
def test_a_run_whose_pods_train_alone_fails(rehearsal_folder: Path, tmp_path: Path) -> None:
    settings = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "matrix": {"fine_tuning_pod_count": [2]},
        "fine_tuning_hyper_parameters.max_steps": 2,
        # Each pod takes itself for the only one.
        "fine_tuning_command": ["torchrun", "--nnodes=1", "--node-rank=0", "--master-addr=127.0.0.1", *TRAINER],
    }
    done = play("-e", json.dumps({"preset": "light_real", "overrides": settings}), artifacts=tmp_path, timeout=1200)
    assert done.code != 0, done.output
    assert "total_batch_size is 4 in the log of" in done.flat() and "the settings give 8" in done.flat()


@needs_a_node
@pytest.mark.long
@pytest.mark.parametrize("preset", ["light_real", "kserve_light", "light_model"])
def test_servers_are_deployed_measured_and_removed(preset: str, rehearsal_folder: Path, tmp_path: Path) -> None:
    """One server, then two of them, in containers: what the load balancer carries is answered by both."""
    before = state_of_the_machine()
    # How busy the machine is does not matter here.
    given = {"rehearsal_data_dir": str(rehearsal_folder), "serving_max_client_lag": 60, "workload_max_lateness": 60}
    done = play(
        "-e",
        json.dumps({"preset": preset, "overrides": given}),
        project="serving",
        artifacts=tmp_path,
        timeout=1200,
    )
    assert done.code == 0, done.output
    assert state_of_the_machine() == before
    points = sorted((run_dirs(tmp_path)[0] / "points").iterdir())
    for replicas, point in enumerate(points, 1):
        kpis = {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}
        ready = kpis["time_to_ready"]
        low, high = ready["interval"]
        assert 0 < low <= ready["value"] <= high and ready["simulated"] == (preset != "light_model")
        rows = [row for row in files.read_json_lines(point / "requests.jsonl") if row["type"] == "request"]
        assert rows and all(row["outcome"] == "succeeded" for row in rows)
        assert all(row["output_tokens"] == row["asked_tokens"] and row["first_token"] > row["sent"] for row in rows)
        document = files.read_json(point / "deployment.json")
        assert document["changed"] and document["urls"][0].endswith(":8000")
        first_request = kpis["first_request"]["value"]
        # Deployments keep the server of the first point; KServe may replace it.
        assert document["earlier_servers"] == (replicas > 1) or preset == "kserve_light"
        assert first_request is None if document["earlier_servers"] else 0 < first_request < 30
        assert files.read_yaml(point / "settings.yml")["serving_replicas"] == replicas
        # KServe makes the Deployment, and changes it for the second point.
        first = "deployment" if preset == "kserve_light" else "created"
        assert (
            next(iter(document["stages"])) == first and document["stages"][first][1] <= document["stages"]["ready"][1]
        )


@needs_a_node
@pytest.mark.long
def test_an_autoscaler_adds_servers_while_the_load_rises(rehearsal_folder: Path, tmp_path: Path) -> None:
    before = state_of_the_machine()
    # How busy the machine is does not matter here.
    given = {"rehearsal_data_dir": str(rehearsal_folder), "serving_max_client_lag": 60, "workload_max_lateness": 60}
    done = play(
        "-e",
        json.dumps({"preset": "light_autoscale", "overrides": given}),
        project="serving",
        artifacts=tmp_path,
        timeout=1200,
    )
    assert done.code == 0, done.output
    assert state_of_the_machine() == before
    (run,) = run_dirs(tmp_path)
    (point,) = (run / "points").iterdir()
    kpis = {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}
    stages = [
        kpis[f"scale_up_{stage}"] for stage in ("desired", "created", "scheduled", "started", "ready", "all_ready")
    ]
    values = [kpi["value"] for kpi in stages]
    assert values == sorted(values) and values[0] > 0
    assert all(kpi["interval"][0] < kpi["value"] < kpi["interval"][1] and kpi["simulated"] for kpi in stages)
    assert kpis["servers_ready_max"]["value"] == 4
    assert "The autoscaler took" in done.flat() and (run / "report" / "plots" / "001_servers.csv").exists()
    # The pods were there, one at first and four in the end, and the autoscaler wanted them: none of it is ours.
    changes = [line for line in files.read_json_lines(point / "scale.jsonl") if line["type"] != "session"]
    assert [line["replicas"] for line in changes if line["type"] == "desired"][0] == 1
    assert len({line["pod"] for line in changes if line["type"] == "pod" and line["stage"] == "ready"}) == 4
