# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects to delete, in which order, and which to keep. Pure functions of the metadata of objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

_RUN_ID = re.compile(r"^[a-z0-9][a-z0-9-]{5,19}$")

#: Kinds that the API server manages and that never have our label.
_NEVER = frozenset({"Event", "ComponentStatus"})

#: Namespaced kinds that no user makes.
_OF_CLUSTER = frozenset({"Event", "PodMetrics"})
#: Namespaced kinds that belong to other objects or to the leaders of controllers, unless somebody made one by hand.
_FOLLOWERS = frozenset({"Endpoints", "EndpointSlice", "Lease", "ControllerRevision"})
#: Managers of fields that write for a user. Controllers have any other name, such as that of their program.
_BY_HAND = re.compile(
    r"^(kubectl|oc$|helm|curl|python|OpenAPI-Generator|Mozilla|node-fetch|argocd|fleet|kube-burner|perfscale.seatrial)"
    r"|^(kustomize|helm)-controller$"
)

#: Objects that every namespace has, on Kubernetes and OpenShift.
_IN_EVERY_NAMESPACE = frozenset(
    {
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),
        ("ServiceAccount", "default"),
        ("ServiceAccount", "builder"),
        ("ServiceAccount", "deployer"),
        ("ServiceAccount", "pipeline"),
    }
)

#: Field managers that are components of the cluster, not users or their tools.
_CONTROLLER = re.compile(
    r"(controller|manager|operator|apiserver|scheduler|kubelet|injector|kwok|\.opendatahub\.io)$"
    r"|^(kube|openshift|istio|olm|cert-manager)-"
    # OLM's two operators, and the simulator of operators on a rehearsal cluster
    r"|^(olm|catalog|seatrial-player)$"
)
#: Those of these names that apply what users have written, in Git or for a load: Argo CD, Flux, Fleet, kube-burner.
_FOR_USERS = re.compile(r"^(argocd|fleet|kube-burner)|^(kustomize|helm)-controller$")


@dataclass(frozen=True)
class LabelledObject:
    """One object with the label."""

    kind: ServedKind
    namespace: str
    name: str
    uid: str
    owners: tuple[str, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def title(self) -> str:
        """Kind, namespace and name, and the finalizers that delay the deletion of the object."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        held = f" (held by finalizer {', '.join(self.finalizers)})" if self.deleting and self.finalizers else ""
        return f"{self.kind.kind} {place}{held}"

    @property
    def metadata(self) -> dict[str, str]:
        """What identifies the object in its metadata."""
        return {"namespace": self.namespace, "name": self.name, **({"uid": self.uid} if self.uid else {})}


def metadata_for_deletion(kind: ServedKind, item: dict[str, Any]) -> LabelledObject:
    """Read an object's metadata."""
    meta = item["metadata"]
    owners, finalizers = (
        value if isinstance(value := meta.get(name), list) else [] for name in ("ownerReferences", "finalizers")
    )
    return LabelledObject(
        kind,
        str(meta.get("namespace") or ""),
        meta["name"],
        str(meta.get("uid") or ""),
        tuple(str(owner.get("uid") or "") for owner in owners if isinstance(owner, dict)),
        tuple(map(str, finalizers)),
        bool(meta.get("deletionTimestamp")),
    )


def run_label_selector(run_id: str, extra: str = "") -> str:
    """Return the label selector of a run.

    Raises InputError for an invalid run id: an empty one would select all objects.
    """
    if not _RUN_ID.match(run_id or ""):
        raise InputError(f"run_id '{run_id}' is not a run id (6 to 20 of a-z, 0-9 and -): nothing was deleted")
    return f"{run_labels.RUN}={run_id},{extra}" if extra else f"{run_labels.RUN}={run_id}"


def user_created_kinds(kinds: Iterable[ServedKind]) -> list[ServedKind]:
    """Return the kinds of namespaced objects that users may create."""
    return [kind for kind in filter_deletable_kinds(kinds) if kind.namespaced and kind.kind not in _OF_CLUSTER]


def filter_deletable_kinds(kinds: Iterable[ServedKind], only: Sequence[str] = ()) -> list[ServedKind]:
    """Return the kinds that can be listed and deleted, restricted to ``only`` if it is not empty.

    ``only``: kinds, or kinds with their group: TrainJob or TrainJob.trainer.kubeflow.org. Raises InputError for a kind
    that the server does not have.
    """
    can = [
        kind
        for kind in kinds
        if "list" in kind.verbs and {"delete", "deletecollection"} & kind.verbs and kind.kind not in _NEVER
    ]
    if not only:
        return can
    names = {name for kind in can for name in (kind.kind, _full_kind_name(kind))}
    for name in only:
        if name not in names:
            raise InputError(
                f"kinds: the server has no kind '{name}' that can be deleted{suggest_similar_name(name, names)}"
            )
    return [kind for kind in can if kind.kind in only or _full_kind_name(kind) in only]


def _full_kind_name(kind: ServedKind) -> str:
    group = kind.api_version.rpartition("/")[0]
    return f"{kind.kind}.{group}" if group else kind.kind


def remove_duplicate_objects(objects: Iterable[LabelledObject]) -> list[LabelledObject]:
    """Return each object once: two API groups may serve the same objects."""
    seen: dict[str, LabelledObject] = {}
    for item in objects:
        seen.setdefault(item.uid or item.title, item)
    return list(seen.values())


def split_into_deletion_waves(objects: Sequence[LabelledObject]) -> list[list[LabelledObject]]:
    """Return the objects in waves; the deletion of a wave starts when the previous wave is deleted.

    The order is: namespaced objects, cluster-scoped objects, namespaces, nodes (which must exist while their pods
    terminate), CustomResourceDefinitions.
    """
    ranks: dict[int, list[LabelledObject]] = {}
    for item in objects:
        ranks.setdefault(_kind_deletion_rank(item.kind), []).append(item)
    return [ranks[rank] for rank in sorted(ranks)]


def _kind_deletion_rank(kind: ServedKind) -> int:
    if kind.namespaced:
        return 0
    return {"Namespace": 2, "Node": 3, "CustomResourceDefinition": 4}.get(kind.kind, 1)


def objects_without_owners(objects: Sequence[LabelledObject]) -> list[LabelledObject]:
    """Return the objects that none of the others owns. The garbage collector deletes the rest after them."""
    uids = {item.uid for item in objects}
    return [item for item in objects if not uids.intersection(item.owners)]


def count_by_kind(objects: Iterable[LabelledObject]) -> dict[str, int]:
    """Return kind -> number, the most frequent first."""
    return dict(Counter(item.kind.kind for item in objects).most_common())


def format_counts_by_kind(numbers: dict[str, int]) -> str:
    """Return counts as text: ``12 TrainJob, 24 Pod``."""
    return ", ".join(f"{number} {kind}" for kind, number in numbers.items()) or "nothing"


def format_remaining_objects(objects: Sequence[LabelledObject], some: int = 5) -> str:
    """Return what is left as text: the number of each kind, and a few objects, those with finalizers first."""
    held = sorted(objects, key=lambda item: (not (item.deleting and item.finalizers), item.title))
    more = f" and {len(held) - some} more" if len(held) > some else ""
    return f"{format_counts_by_kind(count_by_kind(objects))}: {'; '.join(entry.title for entry in held[:some])}{more}"


def belongs_to_others(kind: str, item: dict[str, Any], run_id: str) -> bool:
    """Return whether an object in a namespace of the run belongs to somebody else, so that the namespace must be kept.

    An object is not foreign if it has the run's label or an owner, if every namespace has it, or if only components of
    the cluster have written it (by its managed fields), other than those that apply what users have written.
    """
    meta = item["metadata"]
    if (meta.get("labels") or {}).get(run_labels.RUN) == run_id or meta.get("ownerReferences"):
        return False
    if kind in _OF_CLUSTER or (kind, meta["name"]) in _IN_EVERY_NAMESPACE:
        return False
    if kind in _FOLLOWERS:
        return any(_BY_HAND.search(entry.get("manager") or "") for entry in meta.get("managedFields") or ())
    return not is_written_by_cluster(item)


def is_written_by_cluster(item: dict[str, Any]) -> bool:
    """Return whether only components of the cluster have written an object, other than those that apply users' ones."""
    managers = {entry.get("manager") or "" for entry in item["metadata"].get("managedFields") or ()}
    return bool(managers) and all(_CONTROLLER.search(name) and not _FOR_USERS.search(name) for name in managers)
