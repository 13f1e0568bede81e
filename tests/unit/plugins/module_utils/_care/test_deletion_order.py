# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cleanup deletes, in which order, and what it must never touch."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import deletion_order
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from hypothesis import given
from hypothesis import strategies as st

ALL = frozenset({"list", "delete", "deletecollection"})
POD = ServedKind("v1", "Pod", "pods", True, ALL)
JOB = ServedKind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", True, ALL)
ROLE = ServedKind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False, ALL)
NAMESPACE = ServedKind("v1", "Namespace", "namespaces", False, frozenset({"list", "delete"}))
NODE = ServedKind("v1", "Node", "nodes", False, ALL)
DEFINITION = ServedKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False, ALL)
KINDS = (POD, JOB, ROLE, NAMESPACE, NODE, DEFINITION)
RUN = "t1121-abcdef"


def one(kind: ServedKind = POD, name: str = "a", uid: str = "", **more: Any) -> deletion_order.LabelledObject:
    return deletion_order.LabelledObject(
        kind, "ns" if kind.namespaced else "", name, uid or f"{kind.kind}/{name}", **more
    )


@pytest.mark.parametrize("run_id", ["", "a", "UPPER-CASE", "a,b=c-d", "x" * 30, "t1121-abcdef,"])
def test_what_is_no_run_id_never_becomes_a_selector(run_id: str) -> None:
    """An empty selector would delete everything that there is."""
    with pytest.raises(InputError, match="nothing was deleted"):
        deletion_order.run_label_selector(run_id)


def test_a_further_selector_only_narrows() -> None:
    assert deletion_order.run_label_selector(RUN) == f"perfscale.seatrial/run={RUN}"
    assert deletion_order.run_label_selector(RUN, "app=x") == f"perfscale.seatrial/run={RUN},app=x"


def test_only_kinds_that_can_be_listed_and_deleted_count() -> None:
    review = ServedKind(
        "authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", False, frozenset({"create"})
    )
    metrics = ServedKind("metrics.k8s.io/v1beta1", "PodMetrics", "pods", True, frozenset({"list"}))
    event = ServedKind("v1", "Event", "events", True, ALL)
    assert deletion_order.filter_deletable_kinds([review, metrics, event, *KINDS]) == list(KINDS)


def test_kinds_can_be_named_with_and_without_their_group() -> None:
    assert deletion_order.filter_deletable_kinds(KINDS, ["PyTorchJob", "Pod"]) == [POD, JOB]
    assert deletion_order.filter_deletable_kinds(KINDS, ["PyTorchJob.kubeflow.org"]) == [JOB]
    with pytest.raises(InputError, match="no kind 'PytorchJob' .*did you mean 'PyTorchJob'"):
        deletion_order.filter_deletable_kinds(KINDS, ["PytorchJob"])


@given(st.permutations([one(kind, name) for kind in KINDS for name in "ab"]))
def test_namespaced_goes_first_then_the_clusters_own_namespaces_nodes_definitions(
    objects: list[deletion_order.LabelledObject],
) -> None:
    waves = deletion_order.split_into_deletion_waves(objects)
    order = [{found.kind.kind for found in wave} for wave in waves]
    assert order == [{"Pod", "PyTorchJob"}, {"ClusterRole"}, {"Namespace"}, {"Node"}, {"CustomResourceDefinition"}]
    assert sorted(found.uid for wave in waves for found in wave) == sorted(found.uid for found in objects)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_only_what_no_object_of_the_run_owns_is_a_root(parents: list[int]) -> None:
    """Dependents that are deleted before their owner would be made anew. An owner outside of the run does not count."""
    objects = [
        one(name=str(n), uid=str(n), owners=(str(parent),) if parent != n else ()) for n, parent in enumerate(parents)
    ]
    roots = deletion_order.objects_without_owners(objects)
    uids = {found.uid for found in objects}
    assert all((found in roots) is not bool(uids.intersection(found.owners)) for found in objects)


def test_an_object_that_two_groups_serve_counts_once() -> None:
    assert (
        len(deletion_order.remove_duplicate_objects([one(POD, "a", "u1"), one(JOB, "a", "u1"), one(POD, "b", "u2")]))
        == 2
    )


def test_what_is_left_names_the_finalizer_that_holds_it_first() -> None:
    held = one(JOB, "z", deleting=True, finalizers=("example.com/hold",))
    text = deletion_order.format_remaining_objects([one(POD, "a"), one(POD, "b"), held], some=2)
    assert text == "2 Pod, 1 PyTorchJob: PyTorchJob ns/z (held by finalizer example.com/hold); Pod ns/a and 1 more"


def item(
    name: str = "x", labels: dict[str, str] | None = None, managers: tuple[str, ...] = (), owned: bool = False
) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": name,
        "labels": labels or {},
        "managedFields": [{"manager": one} for one in managers],
    }
    if owned:
        meta["ownerReferences"] = [{"uid": "u"}]
    return {"metadata": meta}


@pytest.mark.parametrize(
    ("kind", "what", "foreign"),
    [
        ("ConfigMap", item(managers=("kubectl-create",)), True),
        ("ConfigMap", item(), True),
        ("ConfigMap", item(labels={run_labels.RUN: "t1121-others"}, managers=("perfscale-seatrial",)), True),
        ("ConfigMap", item(labels={run_labels.RUN: RUN}, managers=("kubectl-create",)), False),
        ("ConfigMap", item("kube-root-ca.crt"), False),
        ("ServiceAccount", item("default", managers=("kube-controller-manager",)), False),
        ("Service", item(owned=True, managers=("training-operator",)), False),
        ("RoleBinding", item("system:deployers", managers=("openshift-controller-manager",)), False),
        ("Secret", item("copied", managers=("some-operator", "kubectl-edit")), True),
        ("Event", item(managers=("kubectl-create",)), False),
    ],
)
def test_only_somebody_elses_object_keeps_a_namespace(kind: str, what: dict[str, Any], foreign: bool) -> None:
    assert deletion_order.belongs_to_others(kind, what, RUN) is foreign


def test_metadata_is_read_from_what_the_server_sends() -> None:
    found = deletion_order.metadata_for_deletion(
        JOB,
        {
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "uid": "u",
                "finalizers": ["f"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"uid": "o"}],
            }
        },
    )
    assert found == deletion_order.LabelledObject(JOB, "ns", "a", "u", ("o",), ("f",), True)
    assert (
        deletion_order.format_counts_by_kind({}) == "nothing"
        and deletion_order.format_counts_by_kind(deletion_order.count_by_kind([found, one()])) == "1 PyTorchJob, 1 Pod"
    )


@pytest.mark.parametrize(
    "manager", ["olm", "catalog", "manager", "seatrial-player", "gpu-operator", "cert-manager-certificates-issuing"]
)
def test_what_olm_and_operators_wrote_is_nobody_elses(manager: str) -> None:
    copied = {"metadata": {"name": "nfd.v1", "managedFields": [{"manager": manager}]}}
    assert not deletion_order.belongs_to_others("ClusterServiceVersion", copied, "run-0001")
    by_hand = {"metadata": {"name": "nfd.v1", "managedFields": [{"manager": manager}, {"manager": "kubectl-edit"}]}}
    assert deletion_order.belongs_to_others("ClusterServiceVersion", by_hand, "run-0001")


@pytest.mark.parametrize(
    "manager", ["argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller"]
)
def test_what_tools_of_users_applied_keeps_a_namespace(manager: str) -> None:
    applied = {"metadata": {"name": "app", "managedFields": [{"manager": manager}, {"manager": "kubelet"}]}}
    assert deletion_order.belongs_to_others("Deployment", applied, "run-0001")


def test_what_another_load_tool_created_keeps_a_namespace() -> None:
    created = {"metadata": {"name": "density-1", "managedFields": [{"manager": "kube-burner"}]}}
    assert deletion_order.belongs_to_others("Deployment", created, "run-0001")


@pytest.mark.parametrize("kind", ["Lease", "Endpoints", "EndpointSlice", "ControllerRevision"])
@pytest.mark.parametrize(
    ("manager", "foreign"),
    [
        *(
            (name, True)
            for name in ("kubectl-create", "kubectl-client-side-apply", "OpenAPI-Generator", "python-requests")
        ),
        *((name, True) for name in ("helm", "argocd-controller", "perfscale-seatrial", "kustomize-controller")),
        *((name, False) for name in ("kube-controller-manager", "nfd-master", "manager", "leader-election", "kwok")),
    ],
)
def test_what_follows_other_objects_is_foreign_only_if_it_was_made_by_hand(
    kind: str, manager: str, foreign: bool
) -> None:
    what = {"metadata": {"name": "x", "managedFields": [{"manager": manager}]}}
    assert deletion_order.belongs_to_others(kind, what, RUN) is foreign
    ours = {"metadata": {**what["metadata"], "labels": {run_labels.RUN: RUN}}}
    assert not deletion_order.belongs_to_others(kind, ours, RUN)
