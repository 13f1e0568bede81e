# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean up after a run, or verify that nothing is left: the work of module cleanup_run.

First it waits until no process puts load on the cluster: objects that it creates after the cleanup would remain. A
submitter holds a lock (flock) on its ledger until it ends, a sampler on its observations. After a kill of the run, both
end within seconds. The kinds that the run created are read from the manifests of its steps and its plans.
"""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.run_labels import INDEX_PLACEHOLDER
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import failure_ledger
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import STOPPED_SERVERS

from . import deletion_order
from .delete_by_label import CleanupOutcome, RunCleanup, verify_nothing_left


def read_created_kinds(run_dir: str | Path) -> dict[tuple[str | None, str], set[str]]:
    """Return API group and kind -> namespaces of the objects of a run ("": cluster-scoped).

    The group is None where no file states it. Raises DataError for an invalid manifest.
    """
    namespaces: dict[tuple[str | None, str], set[str]] = {}
    for version, kind, namespace in [*_objects_in_manifests(run_dir), *_objects_in_plans(run_dir)]:
        namespaces.setdefault((version.rpartition("/")[0] if version else None, kind), set()).add(namespace)
    # A plan states no group of objects that workloads share; their manifests do.
    for unknown in [key for key in namespaces if key[0] is None]:
        known = [key for key in namespaces if key[0] is not None and key[1] == unknown[1]]
        for key in known:
            namespaces[key] |= namespaces[unknown]
        if known:
            del namespaces[unknown]
    return namespaces


def _objects_in_manifests(run_dir: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield API version, kind and namespace of the objects of steps."""
    for document in _manifests(run_dir):
        yield str(document.get("apiVersion") or ""), str(document["kind"]), _manifest_namespace(document)


def _objects_in_plans(run_dir: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield API version, kind and namespace of the workloads of each point, and of what they share."""
    for path in sorted(Path(run_dir).glob("points/*/plan.jsonl")):
        rows = files.read_json_lines(path)
        listed = next(rows, {}).get("templates") or ()
        for template in listed:
            yield from (("", kind, namespace) for kind, namespace in template.get("shared") or ())
            if not _depends_on_index(template):
                yield template.get("api_version") or "", template["kind"], template.get("namespace") or ""
        if any(map(_depends_on_index, listed)):
            templates = {template.get("name"): template for template in listed}
            for row in rows:
                template = templates[row["template"]]
                place = (template.get("namespace") or "").replace(INDEX_PLACEHOLDER, str(row["index"]))
                yield template.get("api_version") or "", template["kind"], place


def _manifests(run_dir: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the steps of a run. Raises DataError for an invalid one."""
    for path in sorted(Path(run_dir).glob("[0-9]*__*/src/*.yml")):
        try:
            documents = untrusted_input.parse_yaml_documents(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise DataError(f"{path}: {error}") from error
        yield from (document for document in documents if isinstance(document, dict) and document.get("kind"))


def _depends_on_index(template: dict[str, Any]) -> bool:
    return INDEX_PLACEHOLDER in (template.get("namespace") or "")


def _manifest_namespace(manifest: dict[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("namespace") or "")


_FILES = ("ledger.jsonl", "observations.jsonl")


def files_in_use(run_dir: Path) -> list[Path]:
    """Return the files of the run's points that a process is writing to."""
    return [path for name in _FILES for path in sorted(run_dir.glob(f"points/*/{name}")) if _is_file_locked(path)]


def _is_file_locked(path: Path) -> bool:
    with open(path, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def wait_for_load_end(run_dir: Path, timeout: float, say: Callable[[str], None]) -> None:
    """Wait until no process writes to the run's points. Raises WaitTimeout with the file after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    reported = False
    while busy := files_in_use(run_dir):
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"a process still puts load on the cluster after {timeout:.0f} s: it writes to {busy[0]}; "
                "end that process first"
            )
        if not reported:
            say(f"waiting for the end of the load ({busy[0].parent.name}/{busy[0].name} is being written to)")
            reported = True
        time.sleep(0.2)


#: Timeout of one request, in seconds.
_REQUEST = 90.0

#: Timeout for the load of a killed run to end, in seconds.
_LOAD_END = 30.0


@dataclass(frozen=True)
class CleanupSpec:
    """The module's options."""

    kubeconfig: str
    run_id: str
    context: str = ""
    selector: str = ""
    kinds: tuple[str, ...] = ()
    keep_nodes: bool = False
    verify: bool = False
    timeout: float = 300.0
    unreachable: str = "fail"
    owned: bool = False
    removed_next: bool = False
    run_dir: str | None = None
    progress_file: str | None = None
    dry: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any], dry: bool) -> CleanupSpec:
        """Return the specification from the parameters of the module. dry: in check mode."""
        names = {field.name for field in fields(cls)} - {"dry"}
        return cls(**{name: value for name, value in params.items() if name in names}, dry=dry)


def clean_up_or_verify(spec: CleanupSpec, step: StepDirectory) -> dict[str, Any]:
    """Clean up or verify; return the module's result.

    Raises CleanupTimeout, and AccessError for an unreachable server unless it may be skipped.
    """
    deletion_order.run_label_selector(spec.run_id, spec.selector)
    say = step.reporter(spec.progress_file, "cleanup")
    if spec.run_dir and not spec.verify:
        wait_for_load_end(Path(spec.run_dir), _LOAD_END, say)
    if spec.removed_next and not spec.verify:
        text = f"the objects of run {spec.run_id} go with their cluster, which is removed next"
        say(text)
        return {"changed": False, "reachable": False, "summary": text, **asdict(CleanupOutcome())}
    if spec.unreachable == "skip" and not Path(spec.kubeconfig).expanduser().exists():
        return _unreachable_cluster_result(spec, say, f"{spec.kubeconfig} does not exist")
    with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=_REQUEST) as client:
        _resume_stopped_servers(client, spec, say)
        try:
            client.request("GET", "/version")
        except AccessError as error:
            if spec.unreachable == "fail":
                raise
            return _unreachable_cluster_result(spec, say, str(error))
        undone, failed = _undo_failures(client, spec, say)
        known = read_created_kinds(spec.run_dir) if spec.run_dir else {}
        sweep = RunCleanup(client, spec.run_id, spec.selector, spec.kinds, spec.keep_nodes, say, known)
        with step.timed("cleanup", "verify" if spec.verify else "delete and wait"):
            result = _clean_reachable_cluster(spec, sweep, say)
        if failed is not None:
            raise failed
        return {**result, "changed": result["changed"] or undone > 0}


def _resume_stopped_servers(client: Client, spec: CleanupSpec, say: Callable[[str], None]) -> None:
    """Let an API server or etcd go on that a killed load has stopped: without it nothing answers."""
    if not spec.run_dir or spec.verify or spec.dry:
        return
    for path in sorted(Path(spec.run_dir).glob(f"points/*/{failure_ledger.FILE}")):
        with suppress(SeatrialError):  # _undo_failures reports it
            failure_ledger.undo_open_failures(client, path.parent, say, STOPPED_SERVERS)


def _undo_failures(client: Client, spec: CleanupSpec, say: Callable[[str], None]) -> tuple[int, SeatrialError | None]:
    """Undo the failures that a killed load left on this server; return how many, and the first error of a point.

    With verify nothing is undone, and what is left is the error. Nothing is undone in check mode.
    """
    undone, here, left = 0, client.access.server, []
    others: Counter[str] = Counter()
    first: SeatrialError | None = None
    paths = Path(spec.run_dir).glob(f"points/*/{failure_ledger.FILE}") if spec.run_dir else ()
    for path in sorted(paths):
        try:
            rows = failure_ledger.failures_not_undone(failure_ledger.read_failures(path))
            others.update(row["server"] for row in rows if row["server"] != here)
            mine = [f"{row['kind']} of {row['target']}" for row in rows if row["server"] == here]
            left += mine
            if spec.dry and mine:
                say(f"would undo {formats.format_list(mine)}, which the load of point {path.parent.name} had left")
            elif mine and not spec.verify:
                undone += failure_ledger.undo_open_failures(client, path.parent, say)
        except SeatrialError as error:
            first = first or error
    for server, number in sorted(others.items()):
        what = formats.format_count(number, "failure")
        say(f"{what} of this run on {server} not undone: this is the cleanup of {here}")
    if spec.verify and left:
        first = SeatrialError(f"run {spec.run_id} still has failures that were not undone: {formats.format_list(left)}")
    return undone, first


def _clean_reachable_cluster(spec: CleanupSpec, sweep: RunCleanup, say: Callable[[str], None]) -> dict[str, Any]:
    if spec.verify:
        outcome = verify_nothing_left(sweep)
        text = f"0 objects of run {spec.run_id} on {sweep.client.access.server}"
    elif spec.dry:
        outcome = CleanupOutcome(
            deletion_order.count_by_kind(sweep.find()), kept=sweep.outcome.kept, unlisted=sweep.outcome.unlisted
        )
        text = f"would delete {deletion_order.format_counts_by_kind(outcome.deleted)} of run {spec.run_id}"
    else:
        outcome = sweep.clean(spec.timeout)
        text = f"deleted {deletion_order.format_counts_by_kind(outcome.deleted)} of run {spec.run_id}"
    if outcome.kept:
        text += f"; kept {deletion_order.format_counts_by_kind(outcome.kept)}"
    if outcome.handed_over:
        text += f"; kept for others: {', '.join(outcome.handed_over)}"
    if outcome.unlisted:
        text += f"; unknown, as they can't be listed: {formats.format_list(outcome.unlisted, 5)}"
    say(text)
    changed = bool(outcome.deleted or outcome.handed_over) and not spec.verify
    return {"changed": changed, "reachable": True, "summary": text, **asdict(outcome)}


def _unreachable_cluster_result(spec: CleanupSpec, say: Callable[[str], None], why: str) -> dict[str, Any]:
    fate = "are deleted with the cluster when it is released" if spec.owned else "remain"
    text = f"nothing was deleted: {why}; objects of run {spec.run_id}, if any, {fate}"
    say(text)
    return {"changed": False, "reachable": False, "summary": text, **asdict(CleanupOutcome())}
