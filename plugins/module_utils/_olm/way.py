# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One operator on its way: what is done for it next, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cleanup.plan import RUN_LABEL
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    ApiError,
    InputError,
    OwnershipError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm import manifests, standing
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.ready import covers, is_meant, is_ready, not_ready
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.standing import Standing
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.view import View, at, conditions, title
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.wanted import (
    Offer,
    Operand,
    Operator,
    appended,
    choose,
    example,
    merged,
)

Say = Callable[[str], None]

#: Reasons of a failed ClusterServiceVersion that no waiting heals.
HOPELESS = frozenset(
    {
        "InvalidInstallModes",
        "UnsupportedOperatorGroup",
        "TooManyOperatorGroups",
        "NoOperatorGroup",
        "InterOperatorGroupOwnerConflict",
        "OwnerConflict",
        "InvalidStrategy",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
    }
)


@dataclass
class Way:
    """One operator on its way. ``step`` does what can be done now and returns what it then waits for, "" at the end."""

    client: Client
    view: View
    one: Operator
    run_id: str
    say: Say
    mine: set[str]  # packages of this call
    there: Standing | None = None
    offer: Offer | None = None
    created: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    waits: str = ""
    operand: dict[str, Any] | None = None
    pull_secret: str = field(default="", repr=False)  # a dockerconfigjson

    @property
    def foreign(self) -> bool:
        """Whether somebody else installed it."""
        return self.there is not None and not self.there.ours

    @property
    def namespace(self) -> str:
        """Where it is or will be installed."""
        return self.there.namespace if self.there is not None else self.one.namespace

    def step(self) -> str:
        """Go as far as possible. Raises SeatrialError when it can't end well."""
        for part in (
            self._catalog,
            self._choice,
            self._place,
            self._subscribed,
            self._plan,
            self._csv,
            self._operand,
            self._expected,
        ):
            self.waits = part()
            if self.waits:
                return self.waits
        return ""

    # Parts

    def _catalog(self) -> str:
        if not self.one.brings_catalog or self.foreign:
            return ""
        wanted = manifests.catalog_source(self.one, self.run_id)
        space = self._space(self.one.catalog_namespace)
        if space:
            return space
        found = standing.check_catalog(self.view, self.one, self.run_id)
        if self.one.catalog_pull_secret:
            self._pull_secret()
        if found is None:
            self._create(wanted)
        elif other := manifests.differences(found, wanted):
            self._patch(found, {"spec": wanted["spec"]}, f"{' and '.join(other)} of")
        found = self.view.get("CatalogSource", self.one.catalog_namespace, self.one.catalog)
        state = at(found, "status.connectionState.lastObservedState", "not looked at yet")
        if state == "READY":
            return ""
        return f"catalog {self.one.catalog} ({state}) to be READY"

    def _pull_secret(self) -> None:
        """Have the Secret that the catalog's image is pulled with. Secrets are not watched: they are others' too."""
        wanted = manifests.pull_secret(self.one, self.pull_secret, self.run_id)
        meta = wanted["metadata"]
        found = self.client.get(self.client.kind("v1", "Secret"), meta["name"], meta["namespace"])
        if found is None:
            self._create(wanted)
        elif found.get("data") != wanted["data"]:
            if not manifests.ours(found, self.run_id):
                raise OwnershipError(f"{self.one.package}: {title(found)} is somebody else's and has another content")
            self._patch(found, {"data": wanted["data"]}, "content of")

    def _choice(self) -> str:
        if self.offer is not None or self.foreign:
            return ""
        items = standing.offered(self.client, self.one)
        if not items:
            return f"a catalog in {self.one.catalog_namespace} to offer package {self.one.package}"
        self.offer = choose(self.one, items)
        standing.check_rivals(self.view, self.one, self.offer)
        return ""

    def _space(self, name: str) -> str:
        """Have a namespace; one that is being deleted is waited for."""
        found = self.view.get("Namespace", "", name)
        if found is not None and at(found, "metadata.deletionTimestamp"):
            return f"namespace {name} to be gone, which is being deleted"
        monitoring = self.one.monitoring and name == self.one.namespace
        if found is None:
            self._create(manifests.namespace(name, self.run_id, monitoring))
        elif (
            monitoring
            and manifests.ours(found, self.run_id)
            and not at(found, "metadata.labels").get(manifests.MONITORING)
        ):
            self._patch(found, {"metadata": {"labels": {manifests.MONITORING: "true"}}}, "monitoring of")
        return ""

    def _place(self) -> str:
        if self.foreign or self.offer is None:
            return ""
        space = self._space(self.one.namespace)
        if space:
            return space
        if standing.check_namespace(self.view, self.one, self.offer, self.run_id) is None:
            self._create(manifests.operator_group(self.one, self.offer, self.run_id))
        for one in self.one.objects:
            space = self._space(one["metadata"].get("namespace") or self.one.namespace)
            if space:
                return space
            self._need(one)
        return ""

    def _subscribed(self) -> str:
        if self.foreign or self.offer is None:
            return ""
        wanted = manifests.subscription(self.one, self.offer, self.run_id)
        if self.there is None:
            self.there = Standing(self._create(wanted), True)
        elif other := manifests.differences(self.there.subscription, wanted):
            spec = dict(wanted["spec"])
            spec.setdefault("config", None)
            self._patch(self.there.subscription, {"spec": spec}, f"{' and '.join(other)} of")
        return ""

    def _subscription(self) -> dict[str, Any]:
        if self.there is None:
            raise AssertionError("there is no Subscription yet")
        meta = self.there.subscription["metadata"]
        found = self.view.get("Subscription", meta["namespace"], meta["name"])
        if found is None:
            raise SeatrialError(f"{title(self.there.subscription)} was deleted while it was installed")
        return found

    def _target(self, subscription: dict[str, Any]) -> str:
        """The CSV that is to be installed: the one asked for, or whatever the Subscription now heads for.

        Whether somebody else's goes on to a newer one is theirs to decide.
        """
        if self.foreign and at(subscription, "status.installedCSV"):
            return str(at(subscription, "status.installedCSV"))
        if self.one.version and self.offer is not None:
            return self.offer.csv
        return str(at(subscription, "status.currentCSV") or (self.offer.csv if self.offer else ""))

    def _plan(self) -> str:
        found = self._subscription()
        target = self._target(found)
        if at(found, "status.installedCSV") == target and target:
            return ""
        wanted = at(found, "status.currentCSV")
        if not wanted:
            return f"OLM to resolve {title(found)}{self._trouble(found)}"
        name = at(found, "status.installPlanRef.name") or at(found, "status.installplan.name")
        plan = self.view.get("InstallPlan", self.namespace, name or "")
        if plan is None:
            return f"an InstallPlan for {target}"
        if at(plan, "status.phase") == "Failed":
            told = "; ".join(one.get("message", "") for one in conditions(plan).values() if one.get("message"))
            raise SeatrialError(f"{self.one.package}: {title(plan)} failed: {told or 'OLM does not say why'}")
        if not at(plan, "spec.approved", False):
            return self._approve(plan, target)
        return f"{title(plan)} ({at(plan, 'status.phase', 'not begun')}) to install {target}"

    def _trouble(self, subscription: dict[str, Any]) -> str:
        """What OLM says against a Subscription, in brackets."""
        for name in ("ResolutionFailed", "CatalogSourcesUnhealthy", "BundleUnpackFailed"):
            one = conditions(subscription).get(name, {})
            if one.get("status") == "True":
                return f" ({name}: {one.get('message') or one.get('reason')})"
        return ""

    def _approve(self, plan: dict[str, Any], target: str) -> str:
        """Approve the plan that installs what we want, and nothing of somebody else's with it."""
        brings = at(plan, "spec.clusterServiceVersionNames", [])
        if target not in brings:
            return f"an InstallPlan for {target}; {title(plan)} is for {', '.join(brings)} and is not approved"
        if self.foreign:
            return f"whoever installed {self.one.package} to approve {title(plan)} for {target}"
        for each in self.view.all("Subscription"):
            if each["metadata"]["namespace"] != self.namespace or at(each, "spec.name") in self.mine:
                continue
            if at(each, "status.currentCSV") in brings and at(each, "status.installedCSV"):
                raise OwnershipError(
                    f"{self.one.package}: {title(plan)} would also move {title(each)}, which this run did not make,"
                    f" from {at(each, 'status.installedCSV')} to {at(each, 'status.currentCSV')}: it was not approved."
                    " Install into a namespace of its own"
                )
        self._patch(plan, {"spec": {"approved": True}}, "approved")
        return f"{title(plan)} to install {target}"

    def csv(self) -> dict[str, Any] | None:
        """The ClusterServiceVersion that the Subscription stands at, None before there is one."""
        if self.there is None:
            return None
        found = self._subscription()
        name = at(found, "status.installedCSV") or at(found, "status.currentCSV") or ""
        return self.view.get("ClusterServiceVersion", self.namespace, name)

    def _csv(self) -> str:
        found = self.csv()
        if found is None:
            return f"ClusterServiceVersion {self._target(self._subscription())}"
        phase, reason = at(found, "status.phase", "not begun"), at(found, "status.reason", "")
        if phase == "Succeeded":
            return ""
        if phase == "Failed" and reason in HOPELESS:
            raise SeatrialError(
                f"{self.one.package}: {title(found)} failed: {reason}: {at(found, 'status.message', '')}"
            )
        return f"{title(found)} ({phase}: {at(found, 'status.message', reason)}) to succeed"

    def _operand(self) -> str:
        asked = self.one.operand
        if asked is None:
            return ""
        csv = self.csv()
        if csv is None:
            raise AssertionError("an operand is made after its operator")
        wanted = operand_of(self.one, csv, self.namespace, self.run_id)
        try:
            self.view.follow(wanted["apiVersion"], wanted["kind"])
        except InputError:
            return f"{wanted['kind']} to be served by the API server"
        namespace = wanted["metadata"].get("namespace", "")
        if namespace and (space := self._space(namespace)):
            return space
        found = self.view.get(wanted["kind"], namespace, wanted["metadata"]["name"])
        if asked.single:
            others = [one for one in self.view.all(wanted["kind"]) if not manifests.ours(one, self.run_id)]
            found = found or next(iter(others), None)
        if found is not None and at(found, "metadata.deletionTimestamp"):
            return f"{title(found)} to be gone, which is being deleted"
        if found is not None and not manifests.ours(found, self.run_id):
            self._check_theirs(found, asked)
        else:
            for one in asked.needs:
                self._need(one)
            if found is None:
                found = self._create(wanted)
            elif not covers(found.get("spec"), wanted.get("spec")):
                self._patch(found, {"spec": wanted.get("spec")}, "spec of")
                found = self.view.get(wanted["kind"], namespace, wanted["metadata"]["name"]) or found
        self.operand = found
        if asked.ready is None or is_ready(found, asked.ready):
            return ""
        return f"{title(found)} to be ready{not_ready(found, asked.ready)}"

    def _check_theirs(self, found: dict[str, Any], asked: Operand) -> None:
        """Raise OwnershipError when somebody else's resource would have to be changed."""
        wanted = appended(merged(found, asked.patch), asked.append)
        if not covers(found.get("spec"), wanted.get("spec")):
            raise OwnershipError(
                f"{self.one.package}: {title(found)}, which this run did not make, is not as asked for: left as it is."
                " Ask for nothing more than it has, or change it by hand"
            )

    def _need(self, manifest: dict[str, Any]) -> None:
        """Have an object that the operand refers to, in the operator's namespace unless it names one."""
        meta = {"namespace": self.namespace, **manifest["metadata"]}
        meta["labels"] = {**(meta.get("labels") or {}), RUN_LABEL: self.run_id}
        wanted = {**manifest, "metadata": meta}
        self.view.follow(wanted["apiVersion"], wanted["kind"])
        found = self.view.get(wanted["kind"], meta["namespace"], meta["name"])
        content = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
        if found is None:
            self._create(wanted)
        elif not covers(found, content):
            if not manifests.ours(found, self.run_id):
                raise OwnershipError(f"{self.one.package}: {title(found)} is somebody else's and has another content")
            self._patch(found, content, "content of")

    def _expected(self) -> str:
        for one in self.one.expect:
            self.view.follow(one.api_version, one.kind)
            found = [item for item in self.view.all(one.kind) if is_meant(item, one)]
            missing = sorted(set(one.names) - {item["metadata"]["name"] for item in found})
            if missing:
                return f"{one.kind} {', '.join(missing)} to be there"
            bad = [item for item in found if not is_ready(item, one.ready)]
            if bad:
                return f"{title(bad[0])} to be ready{not_ready(bad[0], one.ready)}" + (
                    f" and {len(bad) - 1} more" if len(bad) > 1 else ""
                )
            if len(found) < one.at_least:
                labels = ",".join(f"{name}={value}" for name, value in one.labels.items())
                return f"{one.at_least} {one.kind} with {labels}; there are {len(found)}"
        return ""

    # Writing

    def _create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make an object. One that somebody made in the meantime is looked at anew at the next step."""
        try:
            made = self.client.create(manifest)
        except ApiError as error:
            if error.status != 409:
                raise
            kind = self.client.kind_of(manifest)
            meta = manifest["metadata"]
            made = self.client.get(kind, meta["name"], meta.get("namespace", "")) or manifest
            if not manifests.ours(made, self.run_id):
                raise OwnershipError(
                    f"{title(made)} was just made by somebody else: look at it and try again"
                ) from error
        else:
            self.created.append(title(made))
            self.changes.append(f"made {title(made)}")
            self.say(f"{self.one.package}: made {title(made)}")
        self.view.note(made["kind"], made)
        return made

    def _patch(self, found: dict[str, Any], patch: dict[str, Any], what: str) -> None:
        kind = self.client.kind_of(found)
        meta = found["metadata"]
        path = kind.path(meta.get("namespace", ""), meta["name"])
        made = self.client.request("PATCH", path, patch, content_type=MERGE_PATCH)
        self.view.note(kind.kind, made)
        verb = what if what == "approved" else f"changed {what}"
        self.changes.append(f"{verb} {title(made)}")
        self.say(f"{self.one.package}: {verb} {title(made)}")


def operand_of(one: Operator, csv: dict[str, Any], namespace: str, run_id: str) -> dict[str, Any]:
    """Return the custom resource to make. A namespaced example goes where the operator is. Raises InputError."""
    asked = one.operand
    if asked is None:
        raise AssertionError("no operand was asked for")
    base = appended(merged(asked.manifest or example(csv, asked.kind), asked.patch), asked.append)
    meta = dict(base.get("metadata") or {})
    if asked.name:
        meta["name"] = asked.name
    if meta.get("namespace") and not asked.manifest:
        meta["namespace"] = namespace
    if asked.namespace:
        meta["namespace"] = asked.namespace
    meta["labels"] = {**(meta.get("labels") or {}), RUN_LABEL: run_id}
    return {**base, "metadata": meta}
