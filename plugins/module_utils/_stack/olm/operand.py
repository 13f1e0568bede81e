# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The custom resource that an operator reconciles, and the objects that its installation must produce."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at, merged, title
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import manifests, served_metrics
from .object_writer import Writer
from .operator_specs import Operand, Operator, appended, example
from .readiness import covers, is_meant, is_ready, not_ready


def ensure(writer: Writer, asked: Operand, csv: dict[str, Any], operators: str) -> tuple[dict[str, Any] | None, str]:
    """Ensure that the resource exists; return it (None if it does not exist yet) and what it waits for ("" when ready).

    operators: namespace of the operator. Raises InputError, OwnershipError.
    """
    cache, run_id = writer.cache, writer.run_id
    wanted = operand_of(writer.operator, csv, operators, run_id)
    try:
        cache.follow(wanted["apiVersion"], wanted["kind"])
    except InputError:
        return None, f"{wanted['kind']} to be served by the API server"
    namespace = wanted["metadata"].get("namespace", "")
    if namespace and (wait := writer.ensure_namespace(namespace)):
        return None, wait
    found = cache.get(wanted["kind"], namespace, wanted["metadata"]["name"])
    if asked.single:
        others = [one for one in cache.all(wanted["kind"]) if not manifests.ours(one, run_id)]
        found = found or next(iter(others), None)
    if found is not None and field_at(found, "metadata.deletionTimestamp"):
        return None, f"{title(found)} to be deleted completely"
    if found is not None and not manifests.ours(found, run_id):
        _check_theirs(writer.operator, found, asked)
    else:
        for one in asked.needs:
            writer.ensure(one, operators)
        if found is None:
            found = writer.create(wanted)
        elif not covers(found.get("spec"), wanted.get("spec")):
            writer.patch(found, {"spec": wanted.get("spec")}, "spec of")
            found = cache.get(wanted["kind"], namespace, wanted["metadata"]["name"]) or found
    if asked.ready is None or is_ready(found, asked.ready):
        return found, ""
    return found, f"{title(found)} to be ready{not_ready(found, asked.ready)}"


def _check_theirs(one: Operator, found: dict[str, Any], asked: Operand) -> None:
    """Raise OwnershipError if a resource that this run did not create would have to be changed."""
    wanted = appended(merged(found, asked.patch), asked.append)
    if not covers(found.get("spec"), wanted.get("spec")):
        raise OwnershipError(
            f"{one.package}: {title(found)}, which this run did not create, does not match the requested one:"
            " left unchanged. Request what it has, or change it manually"
        )


def expected(cache: WatchCache, one: Operator) -> str:
    """Return the first expected object that is missing or not ready, "" if all are ready."""
    for each in one.expect:
        cache.follow(each.api_version, each.kind)
        found = [item for item in cache.all(each.kind) if is_meant(item, each)]
        missing = sorted(set(each.names) - {item["metadata"]["name"] for item in found})
        if missing:
            return f"{each.kind} {', '.join(missing)} to exist"
        if each.ready.metrics:
            for item in found:
                if lack := served_metrics.lacks(cache.client, item, each.ready):
                    return f"{title(item)} to serve metrics{lack}"
        bad = [item for item in found if not is_ready(item, each.ready)]
        if bad:
            return f"{title(bad[0])} to be ready{not_ready(bad[0], each.ready)}" + (
                f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            )
        if len(found) < each.at_least:
            labels = ",".join(f"{name}={value}" for name, value in each.labels.items())
            return f"{each.at_least} {each.kind} with {labels}; there are {len(found)}"
    return ""


def operand_of(one: Operator, csv: dict[str, Any], namespace: str, run_id: str) -> dict[str, Any]:
    """Return the custom resource to create. A namespaced example gets the operator's namespace. Raises InputError."""
    asked = one.operand
    if asked is None:
        raise AssertionError("no operand was requested")
    base = appended(merged(asked.manifest or example(csv, asked.kind), asked.patch), asked.append)
    meta = dict(base.get("metadata") or {})
    if asked.name:
        meta["name"] = asked.name
    if meta.get("namespace") and not asked.manifest:
        meta["namespace"] = namespace
    if asked.namespace:
        meta["namespace"] = asked.namespace
    meta["labels"] = {**(meta.get("labels") or {}), run_labels.RUN: run_id}
    return {**base, "metadata": meta}
