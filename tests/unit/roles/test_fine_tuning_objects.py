# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of every flavour and preset of fine-tuning, against the schemas of their CRDs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import custom_resources
import pytest
import training_objects
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import template_renderer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours, workload_kinds

pytestmark = pytest.mark.usefixtures("ansible_plugins")

#: Settings of a point with everything that a pod can have.
EVERYTHING: dict[str, Any] = {
    "fine_tuning_pod_count": 3,
    "fine_tuning_gpus": 8,
    "fine_tuning_command": ["python", "my train.py"],
    "fine_tuning_networks": ["lab/rail-a", "rail-b", "rail-c"],
    "fine_tuning_network_count": 2,
    "fine_tuning_pod_network": False,
    "fine_tuning_host_network": True,
    "fine_tuning_extra_resources": {"rdma/shared_ib": 1},
    "fine_tuning_capabilities": ["IPC_LOCK"],
    "fine_tuning_security_context": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
    "fine_tuning_service_account": "rdma",
    "fine_tuning_annotations": {"example.com/note": "x"},
    "fine_tuning_environment": {"NCCL_DEBUG": "INFO", "HF_HOME": "/data"},
    "fine_tuning_priority_class": "high",
    "fine_tuning_storage_claim": "models",
    "fine_tuning_shared_memory": "20Gi",
    "fine_tuning_node_selector": {"zone": "a"},
    "fine_tuning_tolerations": [{"operator": "Exists"}],
}


#: API -> how many processes its controller tells torchrun to start in a pod.
PROCESSES: dict[str, Callable[[dict[str, Any]], str]] = {
    "pytorchjob": lambda manifest: manifest["spec"]["nprocPerNode"],
    "trainjob": lambda manifest: str(manifest["spec"]["trainer"]["numProcPerNode"]),
}


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], Any]:
    return custom_resources.validator(["training-operator", "kuberay", "jobset", "trainer"])


def workload(given: dict[str, Any], simulated: bool = False) -> dict[str, Any]:
    return training_objects.workloads(given, simulated=simulated)[0]


def problems(schemas: dict[tuple[str, str], Any], manifest: dict[str, Any]) -> list[str]:
    found = schemas[manifest["apiVersion"], manifest["kind"]].iter_errors(manifest)
    return [f"{'.'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in found]


def pods(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The templates of the pods that train."""
    return training_objects.pods(training_objects.rendered(given))


def objects(given: dict[str, Any], simulated: bool = False) -> list[dict[str, Any]]:
    """The object of a training, and those that it shares with others."""
    made = training_objects.rendered(given, simulated=simulated)
    return [made.workload.manifest(0), *made.shared]


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("flavour", training_flavours.flavour_names())
@pytest.mark.parametrize("given", [{}, {"fine_tuning_gpus": 0}, EVERYTHING], ids=["defaults", "no GPU", "everything"])
@pytest.mark.parametrize("simulated", [True, False], ids=["simulated", "real"])
def test_the_schema_of_the_kind_permits_every_field(
    flavour: str, given: dict[str, Any], simulated: bool, schemas: dict[tuple[str, str], Any]
) -> None:
    manifest, *shared = objects({**given, "fine_tuning_flavour": flavour}, simulated)
    kind = workload_kinds.load_kind_by_name_or_path(training_flavours.load_flavour(flavour).apis[0])
    assert [f"{manifest['apiVersion']}/{manifest['kind']}"] == kind.references
    assert [problems(schemas, one) for one in (manifest, *shared)] == [[] for _one in (manifest, *shared)]


def test_the_schemas_find_an_unknown_field_and_a_wrong_type(schemas: dict[tuple[str, str], Any]) -> None:
    manifest = workload({"fine_tuning_api": "jobset"})
    (job,) = manifest["spec"]["replicatedJobs"]
    job["replicas"] = "2"
    job["template"]["spec"]["template"]["spec"]["hostNetwrok"] = True
    assert len(problems(schemas, manifest)) == 2


@pytest.mark.parametrize("flavour", training_flavours.flavour_names())
def test_every_pod_has_its_networks_shared_memory_and_rdma(flavour: str) -> None:
    found = pods({**EVERYTHING, "fine_tuning_flavour": flavour})
    assert found
    for pod in found:
        notes = pod["metadata"]["annotations"]
        assert json.loads(notes["k8s.v1.cni.cncf.io/networks"]) == [
            {"name": "rail-a", "namespace": "lab", "interface": "net1"},
            {"name": "rail-b", "interface": "net2"},
        ]
        assert notes["example.com/note"] == "x"
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        values = environment(pod)
        assert values["NCCL_SOCKET_IFNAME"] == "=net1,net2" and values["GLOO_SOCKET_IFNAME"] == "net1,net2"
        assert values["NCCL_DEBUG"] == "INFO" and values["HF_HOME"] == "/data"
        assert spec["hostNetwork"] is True and spec["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert spec["serviceAccountName"] == "rdma"
        assert container["securityContext"] == {
            "runAsUser": 1000,
            "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
        }
        assert (
            container["resources"]["limits"]["rdma/shared_ib"]
            == 1
            == container["resources"]["requests"]["rdma/shared_ib"]
        )
        shared = [one["emptyDir"] for one in spec["volumes"] if one["name"] == "shared-memory"]
        assert shared == [{"medium": "Memory", "sizeLimit": "20Gi"}]
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]


def test_a_pod_without_secondary_networks_uses_the_interfaces_that_its_libraries_choose() -> None:
    pod = pods({})[0]
    assert not [name for name in environment(pod) if name.endswith("SOCKET_IFNAME")]
    assert "k8s.v1.cni.cncf.io/networks" not in pod["metadata"]["annotations"]


@pytest.mark.parametrize("flavour", training_flavours.flavour_names())
@pytest.mark.parametrize(
    ("given", "claim"),
    [({}, ""), ({"fine_tuning_output_claim": "models"}, "models"), ({"fine_tuning_files": ["*.json"]}, "output")],
)
def test_each_training_writes_to_its_folder_of_the_output_claim(
    flavour: str, given: dict[str, Any], claim: str, schemas: dict[tuple[str, str], Any]
) -> None:
    settings = {**EVERYTHING, **given, "fine_tuning_flavour": flavour}
    manifest, *shared = objects(settings)
    assert not any(problems(schemas, one) for one in (manifest, *shared))
    for pod in pods(settings):
        mounts = {one["mountPath"]: one for one in pod["spec"]["containers"][0]["volumeMounts"]}
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        wanted = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        assert volumes["output"] == {"name": "output", **wanted}
        assert mounts["/mnt/output"].get("subPath") == (manifest["metadata"]["name"] if claim else None)
        # Each pod has its cache, also where several write to one volume.
        assert volumes[mounts["/mnt/cache"]["name"]]["emptyDir"] == {}


def test_caches_are_in_a_volume_that_any_user_can_write_to() -> None:
    pod = pods({})[0]
    mount = next(one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"] if one["name"] == "cache")
    for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
        assert f"{environment(pod)[name]}/".startswith(f"{mount}/")
    # Python looks up a user without this variable by its number, and a random one has no name.
    assert environment(pod)["USER"]


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        ({"fine_tuning_gpus": 0}, {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}),
        ({"fine_tuning_gpus": 0, "fine_tuning_environment": {"OMP_NUM_THREADS": 3}}, {"value": "3"}),
        ({"fine_tuning_gpus": 1}, None),
    ],
)
def test_a_pod_without_gpus_starts_as_many_threads_as_it_has_cpus(given: dict[str, Any], threads: Any) -> None:
    found = [one for one in pods(given)[0]["spec"]["containers"][0]["env"] if one["name"] == "OMP_NUM_THREADS"]
    assert found == ([{"name": "OMP_NUM_THREADS", **threads}] if threads else [])


def test_what_is_downloaded_is_read_from_the_volume() -> None:
    given = {
        "fine_tuning_model_name": "org/model@hf",
        "fine_tuning_dataset_name": "rows.json",
        "fine_tuning_hyper_parameters": {},
    }
    (training,), asked = training_objects.variables(given, "__fine_tuning_trainings", "__fine_tuning_asked")
    found = json.loads(training["text"])
    assert found["model_name_or_path"] == "/mnt/storage/org/model" and asked == ["org/model@hf"]
    assert found["training_data_path"] == "/mnt/storage/rows.json"
    volumes = pods(given)[0]["spec"]["volumes"]
    assert {"name": "storage", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}} in volumes
    (none,) = training_objects.variables({}, "__fine_tuning_claim")
    assert none == ""


@pytest.mark.parametrize(("flavour", "argument"), [("fms", None), ("ilab", "--model_name_or_path=/mnt/storage/org/b")])
def test_several_models_are_as_many_templates_each_with_its_configuration(flavour: str, argument: str | None) -> None:
    given = {"fine_tuning_flavour": flavour, "fine_tuning_models": {"Org/A.1@hf": 2, "org/b@lab": 3}}
    names = ("__fine_tuning_templates", "__fine_tuning_config_maps", "__fine_tuning_asked")
    templates, maps, asked = training_objects.variables(given, *names)
    assert [(one["name"], one["weight"]) for one in templates] == [("org_a_1", 2), ("org_b", 3)]
    assert set(asked) == {"Org/A.1@hf", "org/b@lab"}
    models = [json.loads(one["data"]["config.json"])["model_name_or_path"] for one in maps]
    assert models == ["/mnt/storage/Org/A.1", "/mnt/storage/org/b"]
    pod = training_objects.pods(training_objects.rendered(given, [4], model=1), 4)[0]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == maps[1]["metadata"]["name"] != maps[0]["metadata"]["name"]
    assert argument is None or argument in pod["containers"][0]["args"]


@pytest.mark.parametrize("flavour", training_flavours.flavour_names())
def test_a_replicated_dataset_is_made_before_the_training(flavour: str, schemas: dict[tuple[str, str], Any]) -> None:
    given = {
        **EVERYTHING,
        "fine_tuning_flavour": flavour,
        "fine_tuning_dataset_name": "sets/rows.jsonl",
        "fine_tuning_dataset_replication": 2.5,
    }
    assert not any(problems(schemas, one) for one in objects(given))
    for pod in pods(given):
        (first,) = pod["spec"]["initContainers"]
        assert first["command"][-3:] == ["/mnt/storage/sets/rows.jsonl", "/mnt/dataset/rows.jsonl", "2.5"]
        mounted = {one["name"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
        assert "dataset" in mounted <= {one["name"] for one in pod["spec"]["volumes"]}
    assert "initContainers" not in pods({**given, "fine_tuning_dataset_replication": 1})[0]["spec"]
    (config,) = training_objects.variables(given, "__fine_tuning_config")
    assert "/mnt/dataset/rows.jsonl" in config.values()


def test_rows_are_repeated_or_cut_as_the_factor_says(tmp_path: Path) -> None:
    def replicated(name: str, content: str, factor: str) -> Any:
        return prepared(tmp_path, name, content, factor)

    assert json.loads(replicated("a.json", "[1, 2]", "2.5")) == [1, 2, 1, 2, 1]
    assert replicated("a.jsonl", "1\n\n2\n3", "1.34") == "1\n2\n3\n1\n"
    assert json.loads(replicated("b.json", "[1, 2, 3, 4]", "0.01")) == [1]
    assert "no list of rows" in replicated("c.json", "{}", "2")
    assert "only a .json or .jsonl file" in replicated("d.parquet", "", "2")


def prepared(folder: Path, name: str, content: str, factor: str = "1", transform: str = "") -> str:
    """Run the program of the pod on a dataset; return the new one, or the error."""
    program = folder / "prepare_dataset.py"
    program.write_bytes((training_objects.ROLE / "files" / "prepare_dataset.py").read_bytes())
    if transform:
        (folder / "transform.py").write_text(transform, encoding="utf-8")
    (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-I", str(program), str(folder / name), str(folder / f"to-{name}"), factor]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return (folder / f"to-{name}").read_text(encoding="utf-8") if done.returncode == 0 else done.stderr


def test_a_transform_rewrites_drops_and_multiplies_rows_before_they_are_replicated(tmp_path: Path) -> None:
    transform = "def transform(row):\n    return None if row == 2 else [row, -row] if row == 3 else row * 10\n"
    assert json.loads(prepared(tmp_path, "a.json", "[1, 2, 3]", "1", transform)) == [10, 3, -3]
    assert prepared(tmp_path, "a.jsonl", "1\n2\n3\n", "1.5", transform) == "10\n3\n-3\n10\n"
    assert "leaves no row" in prepared(tmp_path, "a.json", "[2, 2]", "1", transform)
    assert "row 2: the transform failed with TypeError" in prepared(tmp_path, "a.json", "[1, {}]", "1", transform)
    assert "no function transform(row)" in prepared(tmp_path, "a.json", "[1]", "1", "x = 1\n")


@pytest.mark.parametrize("name", ["text", "messages"])
def test_a_named_transform_keeps_what_was_asked_and_answered(name: str, tmp_path: Path) -> None:
    transform = (training_objects.ROLE / "files" / "transforms" / f"{name}.py").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text('{"response_template": "\\n### Label:"}', encoding="utf-8")
    rows = [{"instruction": "add", "input": "1 2", "output": "3"}, {"instruction": "greet", "output": "hello"}]
    first, second = json.loads(prepared(tmp_path, "a.json", json.dumps(rows), "1", transform))
    if name == "text":
        assert first["text"] == "### Instruction:\nadd\n\n### Input:\n1 2\n\n### Label:\n3"
        assert second["text"] == "### Instruction:\ngreet\n\n### Label:\nhello"
        talk = [{"messages": [{"role": "user", "content": "greet"}, {"role": "assistant", "content": "hello"}]}]
        assert json.loads(prepared(tmp_path, "b.json", json.dumps(talk), "1", transform)) == [second]
    else:
        assert [one["content"] for one in first["messages"]] == ["add\n\n1 2", "3"]
        assert [one["role"] for one in second["messages"]] == ["user", "assistant"]


def test_a_transform_is_in_the_config_map_whose_name_depends_on_it(tmp_path: Path) -> None:
    given = {"fine_tuning_dataset_name": "rows.json", "fine_tuning_storage_claim": "models"}
    (tmp_path / "mine.py").write_text("def transform(row): return row", encoding="utf-8")
    found = []
    for transform in ("", "text", str(tmp_path / "mine.py")):
        asked = {**given, "fine_tuning_dataset_transform": transform}
        ((made,),) = training_objects.variables(asked, "__fine_tuning_config_maps")
        found.append(made)
        first = pods(asked)[0]["spec"].get("initContainers")
        assert bool(first) is bool(transform) is ("prepare_dataset.py" in made["data"])
    assert "### Instruction" in found[1]["data"]["transform.py"] and "return row" in found[2]["data"]["transform.py"]
    assert len({one["metadata"]["name"] for one in found}) == 3


def test_tokens_of_rows_are_counted_without_those_that_a_training_cuts_off(tmp_path: Path) -> None:
    """With a tokenizer of words: the program, and the command by which only the first pod runs it."""
    (tmp_path / "transformers.py").write_text(
        "class AutoTokenizer:\n"
        "    def from_pretrained(name):\n"
        "        assert name == '/models/m'\n"
        "        return lambda texts, add_special_tokens: {'input_ids': [['<s>', *one.split()] for one in texts]}\n",
        encoding="utf-8",
    )
    (tmp_path / "rows.jsonl").write_text('{"text": "a b c d e"}\n{"text": "a"}\n', encoding="utf-8")
    config = {"model_name_or_path": "/models/m", "training_data_path": str(tmp_path / "rows.jsonl")}
    config |= {"dataset_text_field": "text", "max_seq_length": 4}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    given = {
        "fine_tuning_count_tokens": True,
        "fine_tuning_dataset_name": "rows.jsonl",
        "fine_tuning_storage_claim": "models",
        "fine_tuning_command": ["sh", "-c", 'echo "trains $0"', "x y"],
    }
    command = pods(given)[0]["spec"]["containers"][0]["command"]
    ((config_map,),) = training_objects.variables(given, "__fine_tuning_config_maps")
    (tmp_path / "count_tokens.py").write_text(config_map["data"]["count_tokens.py"], encoding="utf-8")
    here = [one.replace("/etc/seatrial", str(tmp_path)) for one in command]

    def printed(rank: str) -> str:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "RANK": rank}
        return subprocess.run(here, capture_output=True, text=True, check=True, env=env, timeout=60).stdout

    assert printed("0") == "dataset_tokens_per_sample: 3.0000\ntrains x y\n"
    assert printed("1") == "trains x y\n"
    (tmp_path / "transformers.py").unlink()
    assert printed("0") == "trains x y\n"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"type": "closed"}),
        ({"fine_tuning_rate": 2}, {"type": "constant", "rate": 2.0}),
        (
            {"fine_tuning_arrival": {"type": "poisson", "timespan": 3840}, "fine_tuning_count": 64},
            {"type": "poisson", "timespan": 3840},
        ),
    ],
)
def test_jobs_arrive_as_the_settings_say(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert training_objects.variables(given, "__fine_tuning_arrival") == [wanted]


def test_a_count_of_zero_is_left_to_the_arrival() -> None:
    given = {"fine_tuning_count": 0, "fine_tuning_arrival": {"type": "steps", "steps": [{"rate": 1, "duration": 5}]}}
    (templates,) = training_objects.variables(given, "__fine_tuning_templates")
    assert [one["weight"] for one in templates] == [1]


def test_fms_reads_a_file_and_ilab_gets_arguments() -> None:
    fms = {"fine_tuning_hyper_parameters": {"r": 8}, "fine_tuning_storage_claim": "models"}
    ((training,),) = training_objects.variables(fms, "__fine_tuning_trainings")
    assert json.loads(training["text"]) == {
        "model_name_or_path": "/mnt/storage/bigscience/bloom-560m",
        "training_data_path": "/mnt/storage/tatsu-lab/alpaca",
        "output_dir": "/mnt/output",
        "r": 8,
    }
    container = pods(fms)[0]["spec"]["containers"][0]
    assert container["command"] == ["torchrun", "-m", "tuning.sft_trainer"] and "args" not in container
    given = {"seed": 3, "save_last": True, "mock_data": False, "lora_target_modules": ["q", "v"], "lora_r": None}
    ilab = {"fine_tuning_flavour": "ilab", "fine_tuning_hyper_parameters": given}
    container = pods(ilab)[0]["spec"]["containers"][0]
    assert container["command"][:2] == ["sh", "-c"]
    assert container["args"] == [
        "--data_path=tatsu-lab/alpaca",
        "--lora_target_modules",
        "q",
        "v",
        "--model_name_or_path=bigscience/bloom-560m",
        "--output_dir=/mnt/output",
        "--save_last",
        "--seed=3",
    ]


def test_ray_runs_the_program_on_its_cluster_and_gives_the_gpus_back() -> None:
    given = {**EVERYTHING, "fine_tuning_flavour": "ray"}
    spec = workload(given)["spec"]
    assert spec["entrypoint"] == "python 'my train.py'"
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 2
    assert "command" not in spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    alone = workload({**given, "fine_tuning_pod_count": 1})["spec"]["rayClusterSpec"]
    assert "workerGroupSpecs" not in alone


def test_a_training_without_gpus_has_one_process_in_each_pod_on_the_cpu() -> None:
    given = {"fine_tuning_gpus": 0, "fine_tuning_pod_count": 2}
    for api, processes in PROCESSES.items():
        assert processes(workload({**given, "fine_tuning_api": api})) == "1"
        assert processes(workload({"fine_tuning_api": api, "fine_tuning_gpus": 4})) == "4"
    assert environment(pods(given)[0])["ACCELERATE_USE_CPU"] == "true"
    ((training,),) = training_objects.variables({"fine_tuning_gpus": 0}, "__fine_tuning_trainings")
    text = training["text"]
    assert {name: json.loads(text)[name] for name in ("use_cpu", "use_flash_attn")} == {
        "use_cpu": True,
        "use_flash_attn": False,
    }


def test_the_choices_of_the_setting_are_the_folders() -> None:
    specs = yaml.safe_load((training_objects.ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    assert sorted(options["fine_tuning_flavour"]["choices"]) == training_flavours.flavour_names()


@pytest.mark.parametrize(
    ("api", "first"), [("job", "t1-001-0-0.t1-001-0"), ("jobset", "t1-001-0-workers-0-0.t1-001-0")]
)
def test_torchrun_finds_the_pods_of_a_job_without_an_operator_of_trainings(api: str, first: str) -> None:
    (pod,) = pods({"fine_tuning_api": api, "fine_tuning_pod_count": 3, "fine_tuning_gpus": 2})
    values = {name: value for name, value in environment(pod).items() if name.startswith("PET_")}
    assert values.pop("PET_NODE_RANK") is None, "from the completion index of the pod"
    given = {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": first, "PET_MASTER_PORT": "29500"}
    assert values == given
    assert pod["spec"].get("subdomain") == ("t1-001-0" if api == "job" else None)
    (alone,) = pods({"fine_tuning_api": api, "fine_tuning_gpus": 0})
    assert {name for name in environment(alone) if name.startswith("PET_")} == {"PET_NPROC_PER_NODE"}
    assert "subdomain" not in alone["spec"]


@pytest.mark.parametrize("api", ["pytorchjob", "trainjob", "jobset", "job"])
def test_a_variable_of_the_user_replaces_ours_and_none_is_set_twice(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server refuses two of the same name."""
    monkeypatch.setenv("SEATRIAL_FINE_TUNING_MODEL_TOKEN", "token-of-the-hub")
    own = {"HF_TOKEN": "token-of-mine", "OMP_NUM_THREADS": 2, "PET_NPROC_PER_NODE": 3, "PET_NODE_RANK": 0}
    given = {"fine_tuning_api": api, "fine_tuning_pod_count": 2, "fine_tuning_gpus": 0}
    for pod in pods({**given, "fine_tuning_environment": own}):
        names = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
        assert len(names) == len(set(names)) and set(own) <= set(names)
        assert environment(pod)["PET_NPROC_PER_NODE"] == "3"
    monkeypatch.delenv("SEATRIAL_FINE_TUNING_MODEL_TOKEN")
    assert all("HF_TOKEN" not in environment(pod) for pod in pods(given))


@pytest.mark.parametrize("api", ["pytorchjob", "trainjob", "jobset", "job"])
def test_a_job_that_goes_to_a_queue_is_created_suspended_with_its_name(api: str) -> None:
    manifest = workload({"fine_tuning_api": api, "fine_tuning_queue": "team"})
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert (manifest["spec"].get("runPolicy") or manifest["spec"])["suspend"] is True
    direct = workload({"fine_tuning_api": api})
    assert "kueue.x-k8s.io/queue-name" not in direct["metadata"]["labels"]
    assert "suspend" not in (direct["spec"].get("runPolicy") or direct["spec"])


def test_the_pods_of_trainjobs_are_in_a_runtime_that_all_share_but_each_writes_to_its_folder(
    schemas: dict[tuple[str, str], Any],
) -> None:
    given = {**EVERYTHING, "fine_tuning_api": "trainjob", "fine_tuning_output_claim": "out"}
    (templates,) = training_objects.variables(given, "__fine_tuning_templates")
    template = WorkloadTemplate(**training_objects.resolved(templates[0]))
    made = template_renderer.render_template_for_indices(template, "t1", "001", "t1", [4, 5])
    (runtime,) = made.shared
    jobs = [made.workload.manifest(index) for index in (4, 5)]
    assert [problems(schemas, one) for one in (runtime, *jobs)] == [[], [], []]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    container = replicated["template"]["spec"]["template"]["spec"]["containers"][0]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert mounts["/mnt/output"]["subPathExpr"] == "$(SEATRIAL_JOB)"
    for index, job in zip((4, 5), jobs, strict=True):
        assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
        assert (job["spec"]["trainer"]["numNodes"], job["spec"]["trainer"]["numProcPerNode"]) == (3, 8)
        values = {one["name"]: one.get("value") for one in job["spec"]["trainer"]["env"]}
        assert values["SEATRIAL_JOB"] == job["metadata"]["name"] == f"t1-001-{index}"
        assert not [name for name in values if name.startswith("PET_")], "Trainer refuses them"


@pytest.mark.parametrize("newer", [True, False])
def test_a_runtime_of_the_cluster_gets_what_the_api_permits(newer: bool, schemas: dict[tuple[str, str], Any]) -> None:
    given = {**EVERYTHING, "fine_tuning_api": "trainjob", "fine_tuning_runtime": "torch-distributed"}
    given |= {"fine_tuning_host_network": False, "fine_tuning_priority_class": ""}
    (templates,) = training_objects.variables(given, "__fine_tuning_templates")
    template = WorkloadTemplate(**training_objects.resolved(templates[0]))
    made = template_renderer.render_template_for_indices(
        template, "t1", "001", "t1", [4], has_field=lambda *_names: newer
    )
    assert made.shared == [], "no runtime of ours"
    spec = made.workload.manifest(4)["spec"]
    assert spec["runtimeRef"] == {"kind": "ClusterTrainingRuntime", "name": "torch-distributed"}
    assert "image" not in spec["trainer"], "that of the runtime"
    assert spec["trainer"]["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == 8
    if newer:
        assert problems(schemas, made.workload.manifest(4)) == []
        (job,) = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        patch = job["template"]["spec"]["template"]
    else:
        (patch,) = spec["podTemplateOverrides"]
    assert patch["metadata"]["annotations"]["example.com/note"] == "x"
    assert patch["spec"]["serviceAccountName"] == "rdma"
    assert {one["name"] for one in patch["spec"]["containers"][0]["volumeMounts"]} <= {
        one["name"] for one in patch["spec"]["volumes"]
    }


def test_a_job_of_several_pods_is_indexed_and_has_a_service_for_their_names() -> None:
    given = {"fine_tuning_api": "job", "fine_tuning_pod_count": 2}
    (templates,) = training_objects.variables(given, "__fine_tuning_templates")
    template = WorkloadTemplate(**training_objects.resolved(templates[0]))
    service, job = (
        one.manifest(4)
        for one in template_renderer.render_template_for_indices(template, "t1", "001", "t1", [4]).documents
    )
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == 2
    assert service["kind"] == "Service" and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert service["metadata"]["labels"]["perfscale.seatrial/run"] == "t1"


def test_one_pod_is_a_master_without_workers() -> None:
    manifest = workload({"fine_tuning_api": "pytorchjob", "fine_tuning_pod_count": 1})
    assert list(manifest["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_played_run_times_spread_around_the_one_that_was_set() -> None:
    given = {"__fine_tuning_simulation": {"run_seconds": 10.0}}
    times = []
    made = training_objects.rendered(given, range(200), simulated=True)
    for index in range(200):
        (pod, *_others) = training_objects.pods(made, index)
        times.append(float(pod["metadata"]["annotations"]["perfscale.seatrial/run-seconds"]))
    assert 8 <= min(times) < 8.5 and 11.5 < max(times) <= 12 and abs(sum(times) / 200 - 10) < 0.1
    assert "perfscale.seatrial/run-seconds" not in pods(given)[0]["metadata"]["annotations"]


@pytest.mark.parametrize("status", [0, 3])
def test_the_pod_of_ilab_prints_its_figures_and_ends_as_the_program_does(status: int, tmp_path: Path) -> None:
    """The real command, with a program and a folder that are there."""
    container = pods({"fine_tuning_flavour": "ilab"})[0]["spec"]["containers"][0]
    (tmp_path / "torchrun").write_text(f'#!/bin/sh\necho "got $*"\nexit {status}\n', encoding="utf-8")
    (tmp_path / "torchrun").chmod(0o755)
    (tmp_path / "training_params_and_metrics_global0.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    command = [word.replace("/mnt/output", str(tmp_path)) for word in container["command"]] + ["--a=b c"]
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:{os.defpath}"}, capture_output=True, text=True, timeout=60)
    assert done.stdout == 'got -m instructlab.training.main_ds --a=b c\n{"step": 1}\n'
    assert done.returncode == status
