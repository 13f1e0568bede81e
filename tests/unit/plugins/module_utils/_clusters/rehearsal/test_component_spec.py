"""Component folders: those that are published, and what is said of broken ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_manifests,
    component_selection,
    component_spec,
    go_toolchain,
    process_launch_plan,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.cached_and_user_programs import (
    ComponentPrograms,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import InstancePaths

ROOT = Path(__file__).parents[6] / "roles" / "rehearsal" / "files" / "components"
#: Folders of kinds of workloads, which may hold what a rehearsal cluster adds for the kind.
KINDS = ROOT.parents[2] / "workload" / "files" / "kinds"
FOLDERS = sorted(path.parent.name for folder in (ROOT, KINDS) for path in folder.glob("*/component.yml"))


@pytest.fixture(scope="module")
def known() -> dict[str, component_spec.RehearsalComponent]:
    of_kinds = [component_spec.load_component(path.parent) for path in KINDS.glob("*/component.yml")]
    return {**component_selection.load_all_components(ROOT), **{component.name: component for component in of_kinds}}


def write(root: Path, name: str, **changes: object) -> Path:
    """Make a small component that is right except for ``changes``."""
    folder = root / name
    folder.mkdir(parents=True)
    document: dict[str, object] = {
        "about": "a test",
        "version": "1.0.0",
        "build": {"module": "example.invalid/x", "binaries": {name: "example.invalid/x"}},
        "processes": {name: {"binary": name, "after": [], "ready": [{"url": "http://127.0.0.1:1/"}]}},
    }
    document.update(changes)
    (folder / "component.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", FOLDERS)
def test_a_published_component_is_complete(
    name: str, known: dict[str, component_spec.RehearsalComponent], tmp_path: Path
) -> None:
    chosen = component_selection.select_required_components(known, [name])
    wanted = component_selection.processes_of_components(chosen)
    instance = InstancePaths(tmp_path, "x")
    ports = dict.fromkeys(process_launch_plan.port_names(wanted), 20000)
    programs = {binary: tmp_path for one in chosen for binary in one.build.binaries}
    images = {image.name: tmp_path for one in chosen for image in one.images}
    crds = {one.name: tmp_path for one in chosen if one.crds}
    values = process_launch_plan.placeholder_values(instance, chosen, ports, programs, images, crds)
    for process in component_selection.processes_of_components([known[name]]):
        for text in [*process_launch_plan.render_process_arguments(process, values), *process.environment.values()]:
            assert "@{" not in component_spec.replace_placeholders(text, values, process.name)
        for file in process.files:
            component_spec.replace_placeholders((process.folder / file).read_text(encoding="utf-8"), values, file)
        assert process_launch_plan.process_readiness_probes(process, values)
    if known[name].objects:
        found = component_manifests.read_yaml_objects(
            known[name].folder / known[name].objects, {**values, "ca": "Q0E="}
        )
        hooks = [hook["clientConfig"] for one in found for hook in one.get("webhooks", [])]
        assert all(one["url"].startswith("https://127.0.0.1:20000/") and one["caBundle"] == "Q0E=" for one in hooks)
    if known[name].stages:
        played = component_manifests.read_yaml_objects(known[name].folder / known[name].stages)
        assert played and {stage["kind"] for stage in played} == {"Stage"}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_component_carries_the_go_files_that_it_is_built_from(name: str, known) -> None:
    folder = known[name].folder
    if not known[name].build.module:
        # It starts nothing that was built: it has images, changes the arguments of others, or creates objects only.
        alone = known[name].objects and (known[name].requires or known[name].stages) and not known[name].processes
        assert (known[name].images or known[name].adds_arguments or alone) and not known[name].build.binaries
        return
    if known[name].build.wheel:  # a program of PyPI
        lines = (folder / known[name].build.wheel).read_text(encoding="utf-8").splitlines()
        assert f"{known[name].build.module}=={known[name].version} \\" in lines
        assert sum(line.strip().startswith("--hash=sha256:") for line in lines) >= 2
        return
    assert go_toolchain.go_version_required_by_module(folder) >= (1, 25)
    lines = (folder / "go.mod").read_text(encoding="utf-8").splitlines()
    if f"module {known[name].build.module}" in lines:  # a program of the standard library only
        assert not any(line.startswith("require") for line in lines)
        return
    assert (folder / "go.sum").stat().st_size > 0
    wanted = f"\t{known[name].build.module} v{known[name].version}"
    assert any(line.removesuffix(" // indirect") == wanted for line in lines)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_certificate_that_a_process_names_is_one_that_is_made(name: str, known) -> None:
    chosen = component_selection.select_required_components(known, [name])
    made = {one.name for part in chosen for one in [*part.certificates, *part.users]}
    made |= {"ca", "etcd-ca", "front-proxy-ca", "service-account"}
    for process in component_selection.processes_of_components([known[name]]):
        named = set(re.findall(r"@\{pki\}/([\w-]+)\.(?:crt|key|pub)", " ".join(process.arguments)))
        assert named <= made


@pytest.mark.parametrize("name", FOLDERS)
def test_everything_listens_on_loopback_only(name: str, known) -> None:
    for process in component_selection.processes_of_components([known[name]]):
        for argument in process.arguments:
            assert "0.0.0.0" not in argument
            for port in re.findall(r"(\S*)@\{port\.", argument):
                assert port.endswith("127.0.0.1:") or re.match(r"--(secure|node)-port=$", port), argument
        for file in process.files:
            text = (process.folder / file).read_text(encoding="utf-8")
            for line in re.findall(r"^.*@\{port\..*$", text, re.MULTILINE):
                local = ("127.0.0.1:@{", '{address: 127.0.0.1, port_value: "@{')
                assert any(word in line for word in local) or f"  host: 127.0.0.1\n{line}\n" in text, line


@pytest.mark.parametrize(
    "name",
    [
        *("training-operator", "kueue", "appwrapper", "kuberay", "jobset", "trainer", "leader-worker-set"),
        *("agent-sandbox", "kserve", "endpoint-picker"),
    ],
)
def test_the_hash_recorded_for_definitions_is_the_one_in_go_sum(name: str, known) -> None:
    for one in known[name].crds:
        text = (known[name].folder / "go.sum").read_text(encoding="utf-8")
        assert f"{one.module} {one.version} {one.sum}\n" in text


def test_the_control_plane_and_kwok_are_always_there(known) -> None:
    assert {one.name for one in component_selection.select_required_components(known, [])} == {
        "etcd",
        "control-plane",
        "kwok",
    }


def test_a_component_brings_those_that_it_requires(known, tmp_path: Path) -> None:
    found = {one.name for one in component_selection.select_required_components(known, ["node"])}
    assert found == {"etcd", "control-plane", "kwok", "node", "kubelet", "containerd", "runc"}
    write(tmp_path, "one", requires=["tow"])
    write(tmp_path, "two")
    with pytest.raises(
        InputError, match=r"component one requires 'tow', which does not exist \(did you mean 'two'\?\)"
    ):
        component_selection.select_required_components(component_selection.load_all_components(tmp_path), ["one"])


def test_a_component_of_which_only_programs_are_needed_is_built_and_not_started(known, tmp_path: Path) -> None:
    def parts(*names: str) -> dict[str, component_spec.RehearsalComponent]:
        return {one.name: one for one in component_selection.select_required_components(known, names)}

    chosen = parts("scale-from-zero")
    for name in ("inference-gateway", "endpoint-picker", "model-server"):
        idle = chosen[name]
        assert idle.build == known[name].build and idle.crds == known[name].crds
        assert not (idle.processes or idle.objects or idle.users or idle.certificates)
    # Asked for, or required, it is started.
    for others in (["inference-gateway"], ["endpoint-picker", "inference-gateway"]):
        both = parts("scale-from-zero", *others)
        assert [both[name] == known[name] for name in ("inference-gateway", "endpoint-picker")] == [True, True]
    folder = write(tmp_path, "more", programs_of=["inference-gatewai"])
    with pytest.raises(InputError, match=r"more requires 'inference-gatewai', .*did you mean 'inference-gateway'"):
        component_selection.select_required_components(known, [str(folder)])


def test_no_pod_of_a_component_is_on_a_simulated_node_before_the_scheduler_runs(known) -> None:
    """KWOK never plays a pod that it meets on a node between creating the node's lease and learning of it."""
    pods = [
        (name, document)
        for name, component in known.items()
        if component.objects
        for document in component_manifests.read_yaml_objects(component.folder / component.objects)
        if document["kind"] == "Pod"
    ]
    assert {name for name, _pod in pods} == {"endpoint-picker", "scale-from-zero"}
    for name, pod in pods:
        assert "nodeName" not in pod["spec"], name
        # Nor may the scheduler place it on a node that is not ready yet.
        tolerations = pod["spec"]["tolerations"]
        assert all(entry.get("key") or entry["effect"] == "NoExecute" for entry in tolerations), name


def test_these_are_built_from_the_versions_of_the_control_plane(known) -> None:
    """Else Go would compile most of Kubernetes twice."""
    versions = [
        dict(re.findall(r"^\t(\S+) (v\S+)", (known[name].folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("control-plane", "kubelet", "kubectl", "node", "gangs")
    ]
    for other in versions[1:]:
        assert {name: other[name] for name in versions[0] if name in other and name != "golang.org/x/tools"} == {
            name: versions[0][name] for name in versions[0] if name in other and name != "golang.org/x/tools"
        }


@pytest.mark.parametrize(
    "name", ["kwok", "training-operator", "jobset", "trainer", "leader-worker-set", "agent-sandbox"]
)
def test_what_is_replaced_has_the_version_of_the_control_plane(known, name: str) -> None:
    """Else Go would compile most of the Kubernetes libraries twice."""
    plane, other = ((known[one].folder / "go.mod").read_text(encoding="utf-8") for one in ("control-plane", name))
    wanted = dict(re.findall(r"^\t(\S+) (v\S+)", plane, re.MULTILINE))
    wanted |= dict(re.findall(r"^\t(\S+) => \S+ (v\S+)", plane, re.MULTILINE))
    replaced = dict(re.findall(r"^\t(\S+) => \S+ (v\S+)", other, re.MULTILINE))
    assert "golang.org/x/net" in replaced
    assert replaced == {one: wanted.get(one) for one in replaced}


@pytest.mark.parametrize("image", [{}, {"program": "one", "debian": "trixie"}])
def test_an_image_of_nothing_or_of_two_things_is_refused(image: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, "one", images={"base": image})
    with pytest.raises(InputError, match=r"images\.base: exactly one of program and debian"):
        component_selection.load_all_components(tmp_path)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"requirements": "pins.txt", "python": "3.13"}, "pins.txt does not exist"),
        ({"python": "3.13"}, "requirements and python are required together"),
        ({"packages": "bash"}, r"'packages' must be list"),
    ],
)
def test_an_image_whose_contents_are_not_there_is_refused(image: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path, "one", images={"base": {"debian": "trixie", **image}})
    with pytest.raises(InputError, match=words):
        component_selection.load_all_components(tmp_path)


def test_the_node_gets_the_images_of_all_components_and_the_registry(known, tmp_path: Path) -> None:
    def of_node(option: str, *names: str) -> list[str]:
        chosen = component_selection.select_required_components(known, names)
        (process,) = [one for one in component_selection.processes_of_components(chosen) if one.name == "node"]
        wanted = component_selection.processes_of_components(chosen)
        ports = dict.fromkeys(process_launch_plan.port_names(wanted), 20000)
        programs = {binary: tmp_path for one in chosen for binary in one.build.binaries}
        archives = {image.name: Path(f"/cache/{image.name}") for one in chosen for image in one.images}
        values = process_launch_plan.placeholder_values(InstancePaths(tmp_path, "x"), chosen, ports, programs, archives)
        return [one for one in process_launch_plan.render_process_arguments(process, values) if one.startswith(option)]

    assert of_node("-image=", "node") == ["-image=/cache/pause", "-image=/cache/base"]
    assert of_node("-image=", "training-image") == [
        "-image=/cache/pause",
        "-image=/cache/base",
        "-image=/cache/training",
    ]
    # Only an instance with a registry has its port.
    assert of_node("-registry=", "node") == []
    assert of_node("-registry=", "registry") == ["-registry=127.0.0.1:20000"]


def test_a_component_adds_arguments_after_those_of_another(known) -> None:
    def arguments(*names: str) -> dict[str, list[str]]:
        chosen = component_selection.select_required_components(known, names)
        return {one.name: one.arguments for one in component_selection.processes_of_components(chosen)}

    plain, failing = arguments(), arguments("node-failures")
    for name, more in known["node-failures"].adds_arguments.items():
        assert failing[name] == [*plain[name], *more] and more
        option = more[0].partition("=")[0]
        assert any(argument.startswith(f"{option}=") for argument in plain[name]), "it replaces one that is there"
    assert failing["etcd"] == plain["etcd"]
    assert arguments() == plain, "the components themselves have not changed"


def test_arguments_for_a_process_that_does_not_run_are_refused_with_the_nearest(known, tmp_path: Path) -> None:
    folder = write(tmp_path, "more", adds_arguments={"kwokk": ["--v=1"]})
    with pytest.raises(InputError, match=r"component more adds arguments to 'kwokk' \(did you mean 'kwok'\?\)"):
        component_selection.select_required_components(known, [str(folder)])


def test_a_process_starts_after_those_it_needs(known) -> None:
    order = component_selection.process_start_levels(
        component_selection.processes_of_components(
            component_selection.select_required_components(known, ["training-operator"])
        )
    )
    rank = {one.name: index for index, level in enumerate(order) for one in level}
    assert rank["etcd"] < rank["kube-apiserver"] < rank["kwok"]
    assert rank["kube-apiserver"] < rank["training-operator"]


def test_an_unknown_component_is_refused_with_the_nearest(known) -> None:
    with pytest.raises(
        InputError, match=r"unknown component 'traning-operator' \(did you mean 'training-operator'\?\)"
    ):
        component_selection.select_required_components(known, ["traning-operator"])


def test_an_unknown_key_is_refused_with_file_and_nearest(tmp_path: Path) -> None:
    write(tmp_path, "one", objekts="objects.yml")
    with pytest.raises(InputError, match=r"one/component.yml: unknown key 'objekts' \(did you mean 'objects'\?\)"):
        component_selection.load_all_components(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 3}, "'version' must be str, got 3"),
        ({"objects": "no.yml"}, "no.yml does not exist"),
        (
            {"processes": {"one": {"binary": "two", "after": [], "ready": [{"api": "/x"}]}}},
            "build.binaries has no 'two'",
        ),
        ({"processes": {"one": {"binary": "one", "after": []}}}, "missing ready"),
        ({"processes": {"one": {"binary": "one", "ready": [{"api": "/x"}]}}}, "missing 'after'|missing after"),
        (
            {"processes": {"one": {"binary": "one", "after": [], "ready": [{"api": "/x", "url": "http://x"}]}}},
            "exactly one of url and api",
        ),
        ({"build": {"binaries": {"one": "x"}}}, "build: missing module"),
        ({"build": "none"}, "build: a mapping is required, got str"),
    ],
)
def test_a_broken_component_is_refused_with_its_cause(tmp_path: Path, changes: dict, words: str) -> None:
    write(tmp_path, "one", **changes)
    with pytest.raises(InputError, match=words):
        component_selection.load_all_components(tmp_path)


def test_two_components_with_the_same_process_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build = {"module": "x", "binaries": {"p": "x"}}
        process = {"p": {"binary": "p", "after": [], "ready": [{"api": "/x"}]}}
        write(tmp_path, name, build=build, processes=process)
    with pytest.raises(InputError, match="process p is in components one and two"):
        component_selection.select_required_components(
            component_selection.load_all_components(tmp_path), ["one", "two"]
        )


def test_processes_that_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        write(tmp_path, name, processes={name: {"binary": name, "after": [other], "ready": [{"api": "/x"}]}})
    with pytest.raises(InputError, match="wait for each other: one, two"):
        component_selection.select_required_components(
            component_selection.load_all_components(tmp_path), ["one", "two"]
        )


def test_a_process_that_waits_for_nobody_known_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "one", processes={"one": {"binary": "one", "after": ["onf"], "ready": [{"api": "/x"}]}})
    with pytest.raises(InputError, match=r"starts after 'onf', which does not exist \(did you mean 'one'\?\)"):
        component_selection.select_required_components(component_selection.load_all_components(tmp_path), ["one"])


def test_a_folder_without_components_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no components there"):
        component_selection.load_all_components(tmp_path)


def test_a_kind_is_not_converted_by_a_webhook_whose_service_has_no_pod(tmp_path: Path) -> None:
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "a"}, "spec": {"group": "g"}}
    converted = {**crd, "spec": {"group": "g", "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}}}}}
    (tmp_path / "crds.yml").write_text(yaml.safe_dump_all([crd, converted]))
    programs = {"x": ComponentPrograms("x", "1", {}, {}, tmp_path / "crds.yml", "cached")}
    assert component_manifests.component_objects([], programs, {}) == [
        crd,
        {**crd, "spec": {"group": "g", "conversion": {"strategy": "None"}}},
    ]


def test_the_schemas_of_kinds_are_applied_without_descriptions(tmp_path: Path) -> None:
    described = {"type": "object", "description": "a text"}
    properties = {"description": {"type": "string", "description": "of a property of that name"}, "other": described}
    schema = {"openAPIV3Schema": {**described, "properties": properties, "default": {"description": "kept"}}}
    spec = {"versions": [{"name": "v1", "schema": schema}, {"name": "v2"}]}
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / "crds.yml").write_text(yaml.safe_dump(crd))
    programs = {"x": ComponentPrograms("x", "1", {}, {}, tmp_path / "crds.yml", "cached")}
    ((first, second),) = (one["spec"]["versions"] for one in component_manifests.component_objects([], programs, {}))
    assert first["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {"description": {"type": "string"}, "other": {"type": "object"}},
        "default": {"description": "kept"},
    }
    assert second == {"name": "v2"}
