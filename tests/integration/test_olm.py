"""Operators are installed and removed through the real OLM, and objects of others are never changed."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    delete_and_await,
    install_operators,
    installation_diagnosis,
    operator_removal,
    operator_specs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai import data_science_cluster
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.rhoai_release import (
    RhoaiRequest,
    release_facts_and_checks,
)
from playbook import Done, play, run_dirs

#: What the operator of OpenShift AI leaves behind.
CREATED = release_facts_and_checks(RhoaiRequest("2"))["creates"]
HUB = {"package": "opendatahub-operator", "namespace": "openshift-operators", "creates": CREATED}
OLM = "operators.coreos.com/v1alpha1"
#: The label by which OLM knows what belongs to the operator.
COMPONENT = f"operators.coreos.com/{HUB['package']}.{HUB['namespace']}"
RBAC = "rbac.authorization.k8s.io/v1"
NFD = {
    "package": "nfd",
    "namespace": "openshift-nfd",
    "version": "4.17.0",
    "operand": {"kind": "NodeFeatureDiscovery", "ready": {"condition": "Available"}},
}
GPU = {
    "package": "gpu-operator-certified",
    "namespace": "nvidia-gpu-operator",
    "monitoring": True,
    "operand": {"kind": "ClusterPolicy", "ready": {"field": "status.state", "equals": "ready"}},
}


@pytest.fixture(scope="module")
def kubeconfig(rehearsal_folder: Path) -> Iterator[str]:
    """A separate cluster, since operators affect a whole cluster."""
    options = support.options(rehearsal_folder, "olm", components=["olm"])
    yield cluster_lifecycle.create_or_repair_instance(options, support.quiet)["kubeconfig"]
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "olm", force=True), support.quiet)


@pytest.fixture(scope="module")
def client(kubeconfig: str) -> Iterator[Client]:
    with Client.from_kubeconfig(kubeconfig) as client:
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(2, pool="test-olm"), 60, support.quiet)
        yield client


@pytest.fixture
def before(client: Client) -> Iterator[set[snapshot.ComparedObject]]:
    """All objects before the test. The test must leave exactly these."""
    found = snapshot.settled(client)
    yield found
    left = snapshot.left(client, found)
    assert not left, "; ".join(left)


def put(
    client: Client, *given: dict[str, Any], run: str = "run-0001", timeout: float = 180, **more: Any
) -> dict[str, Any]:
    return install_operators.install_operators(
        client, operator_specs.read_operators(given), run, timeout, StepDirectory(None), print, **more
    )


def take_away(client: Client, run: str = "run-0001", **more: Any) -> dict[str, Any]:
    return operator_removal.remove_operators(
        client, operator_removal.RemovalSpec(run, crds=True, timeout=120, **more), print
    )


def installed(client: Client, package: str) -> dict[str, Any]:
    return installation_diagnosis.installed_operators(client, [package])[0]


def test_two_operators_are_installed_in_parallel_and_removed(
    client: Client, before: set[snapshot.ComparedObject]
) -> None:
    predicted = put(client, NFD, GPU, check=True)
    assert predicted["changed"] and predicted["diff"]["before"] == {}
    assert predicted["diff"]["after"]["Subscription openshift-nfd/nfd"]["spec"]["startingCSV"] == "nfd.4.17.0"
    assert snapshot.left(client, before) == []
    made = put(client, NFD, GPU)
    # What is predicted is done, and after it what follows from the installed operator.
    assert predicted["diff"]["after"].items() <= made["diff"]["after"].items()
    assert "ClusterPolicy gpu-cluster-policy" in made["diff"]["after"]
    assert [(one["csv"], one["phase"]) for one in made["operators"]] == [
        ("nfd.4.17.0", "Succeeded"),
        ("gpu-operator-certified.v25.3.0", "Succeeded"),
    ]
    assert not put(client, NFD, GPU)["changed"] and not put(client, NFD, GPU, check=True)["changed"]
    # OLM has a plan for 4.18.0 by now; nobody asked for it.
    assert installed(client, "nfd")["csv"] == "nfd.4.17.0"

    upgraded = put(client, {**NFD, "version": "4.18.0"})
    assert "InstallPlan" in [key.split()[0] for key in upgraded["diff"]["before"]]
    assert installed(client, "nfd")["csv"] == "nfd.4.18.0"
    assert operator_removal.remove_operators(client, operator_removal.RemovalSpec("run-0001"), print, check=True)[
        "changed"
    ]
    gone = take_away(client)
    assert gone["changed"] and gone["kept"] == []
    assert "Subscription openshift-nfd/nfd" in gone["diff"]["before"] and gone["diff"]["after"] == {}
    assert not take_away(client)["changed"]


@pytest.mark.long
def test_a_csv_that_olm_recreates_while_its_install_plan_is_deleted_is_removed(
    client: Client, before: set[snapshot.ComparedObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, NFD)
    delete_all, anew, roles = operator_removal.delete_objects_and_wait, [], []
    later = ["ClusterRoleBinding", "ClusterRole"]

    def grant(kind: str, owner: dict[str, Any]) -> None:
        """Create a role, or a binding to it, as OLM does for a group or version."""
        meta = owner["metadata"]
        labels = {"": meta["name"], ".namespace": meta["namespace"], ".kind": owner["kind"]}
        name = f"{meta['name']}-left-{len(roles)}"
        metadata = {"name": name, "labels": {f"olm.owner{key}": value for key, value in labels.items()}}
        bound = {"roleRef": {"apiGroup": RBAC.split("/")[0], "kind": "ClusterRole", "name": name}}
        body = bound if kind == "ClusterRoleBinding" else {}
        roles.append(client.create({"apiVersion": RBAC, "kind": kind, "metadata": metadata, **body}))

    def deleted_too_early(client: Client, objects: Any, *more: Any) -> None:
        """Recreate objects as OLM does if it was executing an InstallPlan or creating a role that was deleted."""
        delete_all(client, objects, *more)
        for one in objects:
            if one["kind"] == "OperatorGroup":
                grant("ClusterRole", one)
            if one["kind"] == "ClusterRole" and later:
                grant(later.pop(), anew[0])
            if one["kind"] == "ClusterServiceVersion" and not anew:
                kept = {name: one["metadata"][name] for name in ("name", "namespace")}
                anew.append({**{key: one[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})
                client.create(anew[0])

    monkeypatch.setattr(operator_removal, "delete_objects_and_wait", deleted_too_early)
    gone = take_away(client)
    assert anew and gone["kept"] == [] and not later
    # At once: OLM itself deletes some of what it forgot, but later.
    assert [one["metadata"]["name"] for one in roles if client.get(client.kind_of(one), one["metadata"]["name"])] == []


def test_bad_input_is_refused_before_anything_is_created(client: Client, before: set[snapshot.ComparedObject]) -> None:
    for change, message in (
        ({"package": "nfdd"}, r"has a package 'nfdd' \(did you mean 'nfd'\?\)"),
        ({"channel": "stabel"}, r"no channel 'stabel' \(did you mean 'stable'\?\)"),
        ({"version": "4.17.1"}, "has no version '4.17.1'"),
        ({"catalog": "redhat-operator"}, r"no catalog 'redhat-operator' .*did you mean 'redhat-operators'"),
        ({"watches": "all"}, "can't watch all namespaces"),
    ):
        with pytest.raises(InputError, match=message):
            put(client, GPU, {**NFD, **change})


def test_operators_of_others_are_used_or_refused_but_never_changed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    colleague = {**NFD, "namespace": "colleague", "operand": None}
    put(client, colleague, run="colleague")
    older = definitions_without_their_operator(client)
    theirs = snapshot.settled(client)
    try:
        found = put(client, {**NFD, "version": "", "operand": None})["operators"][0]
        assert found["foreign"] and (found["namespace"], found["csv"]) == ("colleague", "nfd.4.17.0")
        with pytest.raises(OwnershipError, match=r"has installed nfd.4.17.0, not nfd.4.18.0: left unchanged"):
            put(client, {**NFD, "version": "4.18.0"})
        with pytest.raises(OwnershipError, match="OperatorGroup colleague/nfd-operator-group, not created by this run"):
            put(client, {"package": "seatrial-unavailable", "namespace": "colleague", "watches": "all"})

        put(client, HUB, run="colleague")
        with pytest.raises(OwnershipError, match="opendatahub-operator.v2.35.0 already provides auths.services"):
            put(client, {"package": "rhods-operator", "namespace": "redhat-ods-operator"})
        wait_until_labelled(client, data_science_cluster.DSC_NAME, data_science_cluster.DSCI_NAME)
        labelled = label_definitions_again(monkeypatch)
        take_away(
            client,
            run="colleague",
            packages=["opendatahub-operator"],
            operands=[{"kind": "DSCInitialization", "name": "default-dsci"}],
            namespaces=["opendatahub"],
        )

        kept = take_away(client, packages=["nfd"])
        assert not kept["changed"] and kept["kept"] == ["Subscription colleague/nfd: this run did not create it"]
        definitions = {"datascienceclusters.datasciencecluster", "dscinitializations.dscinitialization"}
        assert set(labelled) == {f"{one}.opendatahub.io" for one in definitions}
        assert snapshot.left(client, theirs) == []
    finally:
        take_away(client, run="colleague")
        for one in older:
            client.delete(client.kind_of(one), one["metadata"]["name"])


def definitions_without_their_operator(client: Client) -> list[dict[str, Any]]:
    """Create the definitions of Open Data Hub as if its operator had been here before."""
    put(client, HUB, run="colleague")
    wait_until_the_operator_has_initialized(client)
    kind = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    names = (data_science_cluster.DSC_NAME, data_science_cluster.DSCI_NAME)
    found = [client.get(kind, name) for name in names]
    own = [{"kind": "DSCInitialization", "name": "default-dsci"}]
    take_away(client, run="colleague", packages=[HUB["package"]], operands=own, namespaces=["opendatahub"])
    return [
        client.create({**{key: one[key] for key in ("apiVersion", "kind", "spec")}, "metadata": {"name": name}})
        for one, name in zip(found, names, strict=True)
        if one is not None
    ]


def wait_until_the_operator_has_initialized(client: Client) -> None:
    """Wait until Open Data Hub has created its DSCInitialization, some time after it was installed."""
    kind = client.kind("dscinitialization.opendatahub.io/v1", "DSCInitialization")
    deadline = time.monotonic() + 60
    while client.get(kind, "default-dsci") is None:
        assert time.monotonic() < deadline, "the operator creates no DSCInitialization"
        time.sleep(0.1)


def wait_until_labelled(client: Client, *names: str) -> None:
    """Wait until OLM has labelled these definitions as parts of the operator, some time after it was installed."""
    kind = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    deadline = time.monotonic() + 60
    left = set(names)
    while left:
        assert time.monotonic() < deadline, f"OLM does not label {sorted(left)}"
        time.sleep(0.1)
        found = {name: client.get(kind, name) or {} for name in left}
        left -= {name for name, one in found.items() if COMPONENT in (one["metadata"].get("labels") or {})}


def label_definitions_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Add OLM's label again once to each object, as OLM does if it does not know yet that the version is deleted.

    Returns the names of the objects.
    """
    patch_labels = delete_and_await.patch_labels
    labelled: list[str] = []

    def patched_before_olm_knows(client: Client, one: dict[str, Any], labels: dict[str, str | None]) -> None:
        patch_labels(client, one, labels)
        if one["metadata"]["name"] not in labelled:
            labelled.append(one["metadata"]["name"])
            patch_labels(client, one, dict.fromkeys(labels, ""))

    monkeypatch.setattr(delete_and_await, "patch_labels", patched_before_olm_knows)
    return labelled


def test_an_operator_is_kept_while_somebody_else_uses_it(client: Client, before: set[snapshot.ComparedObject]) -> None:
    put(client, {**NFD, "operand": None})
    kind = client.kind("nfd.openshift.io/v1", "NodeFeatureDiscovery")
    theirs = {
        "apiVersion": "nfd.openshift.io/v1",
        "kind": "NodeFeatureDiscovery",
        "metadata": {"name": "theirs", "namespace": "openshift-nfd"},
        "spec": {},
    }
    client.create(theirs)
    left = take_away(client)
    assert not left["changed"] and "theirs would be left without an operator" in left["kept"][0]
    client.delete(kind, "theirs", "openshift-nfd")
    assert take_away(client)["kept"] == []


# A deployment that never gets available, a finalizer and an operand that fails are in Molecule's scenarios too.
@pytest.mark.long
def test_every_failure_is_reported_within_the_timeout_with_its_cause(
    client: Client, before: set[snapshot.ComparedObject], tmp_path: Path
) -> None:
    asked = [
        {"package": "seatrial-unavailable", "namespace": "unavailable"},
        {"package": "seatrial-unresolvable", "namespace": "unresolvable"},
        {
            "package": "nfd",
            "namespace": "gone",
            "catalog": "gone",
            "catalog_namespace": "gone",
            "catalog_address": "127.0.0.1:1",
        },
    ]
    with pytest.raises(WaitTimeout) as failed:
        install_operators.install_operators(
            client, operator_specs.read_operators(asked), "run-0001", 25, StepDirectory(str(tmp_path)), print
        )
    unavailable, unresolvable, gone = str(failed.value).splitlines()
    assert "after 25 s it still waits for" in unavailable and "didn't match Pod's node affinity" in unavailable
    assert "ResolutionFailed" in unresolvable and "group: nobody.seatrial.test" in unresolvable
    assert "catalog gone" in gone and "127.0.0.1:1" in gone
    assert list((tmp_path / "artifacts" / "unavailable").glob("seatrial-unavailable-*.log"))
    assert "Unschedulable" in (tmp_path / "artifacts" / "unavailable" / "objects.yml").read_text()
    take_away(client)


# As the role does in Molecule's scenario olm_operator.
@pytest.mark.long
def test_a_blocking_finalizer_is_named_and_removed_only_on_request(
    client: Client, before: set[snapshot.ComparedObject]
) -> None:
    put(client, NFD)
    kind = client.kind("nfd.openshift.io/v1", "NodeFeatureDiscovery")
    path = kind.path("openshift-nfd", "nfd-instance")
    client.request("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, content_type=MERGE_PATCH)
    with pytest.raises(WaitTimeout, match="nfd-instance .held by finalizer example.com/hold"):
        operator_removal.remove_operators(client, operator_removal.RemovalSpec("run-0001", crds=True, timeout=3), print)
    assert installed(client, "nfd")["phase"] == "Succeeded"  # its operator must still be there to remove it
    gone = operator_removal.remove_operators(
        client, operator_removal.RemovalSpec("run-0001", crds=True, timeout=20, force_finalizers=True), print
    )
    assert gone["finalizers"] == ["NodeFeatureDiscovery openshift-nfd/nfd-instance: example.com/hold"]


# The same in a whole run, with a colleague's things around: test_stack_run.py.
@pytest.mark.long
def test_a_data_science_cluster_of_somebody_else_is_extended_only_on_request_and_reverted(client: Client) -> None:
    def ask(state: str, **more: Any) -> dict[str, Any]:
        order = data_science_cluster.DataScienceSpec("run-0001", timeout=60, **more)
        return data_science_cluster.ensure_data_science_cluster_state(client, order, state, StepDirectory(None), print)

    theirs_too = {"package": "rhods-operator", "namespace": "colleague-rhoai", "watches": "all", "creates": CREATED}
    put(client, theirs_too, run="colleague")
    theirs = data_science_cluster.DataScienceSpec("colleague", name="theirs", components=["dashboard"], timeout=90)
    data_science_cluster.ensure_data_science_cluster_state(client, theirs, "present", StepDirectory(None), print)
    before = snapshot.settled(client)
    try:
        with pytest.raises(InputError, match=r"has no 'kserv' \(did you mean 'kserve'\?\)"):
            ask("present", components=["kserv"])
        assert not ask("present", components=["dashboard"])["changed"]
        with pytest.raises(OwnershipError, match="theirs, which this run did not create, does not manage ray"):
            ask("present", components=["ray"])
        extended = ask("present", components=["ray"], adopt=True)
        assert extended["components"] == ["dashboard", "ray"]
        states = [
            extended["diff"][side]["DataScienceCluster theirs"]["spec"]["components"]["ray"]["managementState"]
            for side in ("before", "after")
        ]
        assert states == ["Removed", "Managed"]
        assert not ask("present", components=["ray"], adopt=True)["changed"]
        given_back = ask("absent")
        assert given_back["changed"] and len(given_back["kept"]) == 2
        assert snapshot.left(client, before) == []
    finally:
        data_science_cluster.ensure_data_science_cluster_state(client, theirs, "absent", StepDirectory(None), print)
        take_away(client, run="colleague")


@pytest.mark.long
def test_open_data_hub_is_installed_from_a_private_catalog_image(
    client: Client, before: set[snapshot.ComparedObject]
) -> None:
    asked = {
        "package": "opendatahub-operator",
        "namespace": "test-odh",
        "watches": "all",
        "catalog": "opendatahub-catalog",
        "catalog_namespace": "test-odh",
        "catalog_image": "registry.invalid/odh-catalog:2.35",
        "catalog_pull_secret": "rhoai_pull_secret",
        "creates": CREATED,
    }
    content = json.dumps({"auths": {"registry.invalid": {"auth": "Y2FuYXJ5"}}})
    with pytest.raises(InputError, match="'rhoai_pull_secret' is missing or empty in pull_secrets"):
        put(client, asked)
    with pytest.raises(InputError, match="'rhoai_pull_secret' is not a dockerconfigjson") as refused:
        put(client, asked, pull_secrets={"rhoai_pull_secret": "canary"})
    assert "canary" not in str(refused.value)

    made = put(client, asked, pull_secrets={"rhoai_pull_secret": content})["operators"][0]
    assert made["csv"] == "opendatahub-operator.v2.35.0" and content not in str(made)
    assert not put(client, asked, pull_secrets={"rhoai_pull_secret": content})["changed"]
    secret = client.get(client.kind("v1", "Secret"), "rhoai-pull-secret", "test-odh")
    assert base64.b64decode(secret["data"][".dockerconfigjson"]).decode() == content
    source = client.get(client.kind(OLM, "CatalogSource"), "opendatahub-catalog", "test-odh")
    assert source["spec"]["secrets"] == ["rhoai-pull-secret"]

    order = data_science_cluster.DataScienceSpec(
        "run-0001",
        components=["kserve"],
        initialisation_settings={"serviceMesh.managementState": "Managed"},
        applications_namespace="opendatahub",
        monitoring_namespace="opendatahub",
        timeout=90,
    )
    found = data_science_cluster.ensure_data_science_cluster_state(client, order, "present", StepDirectory(None), print)
    assert found["components"] == ["kserve"]
    assert not data_science_cluster.ensure_data_science_cluster_state(
        client, order, "present", StepDirectory(None), print
    )["changed"]
    (initialisation,) = client.list(client.kind("dscinitialization.opendatahub.io/v1", "DSCInitialization"))[0]
    assert initialisation["spec"]["serviceMesh"]["managementState"] == "Managed"
    data_science_cluster.ensure_data_science_cluster_state(client, order, "absent", StepDirectory(None), print)
    take_away(client, namespaces=["opendatahub"])


def stack(kubeconfig: str, artifacts: Path, *words: str, tags: str = "") -> Done:
    given = ["-e", f"cluster_kubeconfig={kubeconfig}", *(["--tags", tags] if tags else []), *words]
    return play(*given, artifacts=artifacts, project="stack")


def test_the_playbook_installs_shows_captures_and_removes_the_stack(
    kubeconfig: str, before: set[snapshot.ComparedObject], tmp_path: Path
) -> None:
    done = stack(kubeconfig, tmp_path / "one", "-e", json.dumps({"stack": ["nfd", "gpu_operator"]}))
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(tmp_path / "one")
    owner = f"installed by run {run_dir.name.removeprefix('stack-default-')}"
    assert f"openshift-nfd: Succeeded, {owner}" in done.flat(), done.output

    shown = stack(kubeconfig, tmp_path / "two", "-e", json.dumps({"stack": ["nfd", "rhoai"]}), tags="show,capture")
    assert shown.code == 0, shown.output
    assert f"openshift-nfd: Succeeded, {owner}" in shown.flat() and "rhoai: not installed" in shown.flat()
    (other,) = run_dirs(tmp_path / "two")
    assert [*other.glob("*__stack__capture/artifacts/openshift-nfd")]
    assert not [*other.glob("lock-*.json")], "reading takes no lock"

    removed = stack(kubeconfig, tmp_path / "one", "-e", f"run_dir={run_dir}", tags="cleanup,release")
    assert removed.code == 0, removed.output


def test_the_playbook_refuses_an_empty_stack_and_an_unknown_part(
    kubeconfig: str, before: set[snapshot.ComparedObject], tmp_path: Path
) -> None:
    empty = stack(kubeconfig, tmp_path / "one")
    assert empty.code != 0 and "stack is empty: name what to install" in empty.flat(), empty.output
    wrong = stack(kubeconfig, tmp_path / "two", "-e", json.dumps({"stack": ["gpu"]}))
    assert wrong.code != 0 and "gpu_operator" in wrong.flat(), wrong.output
    assert not (tmp_path / "two").exists(), "nothing was begun"
