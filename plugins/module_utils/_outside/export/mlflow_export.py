# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MLflow: each point of a run as a run of an experiment, through the REST API of the tracking server.

The run of a point is found by its tag ``seatrial.point``, the uuid of the point, and only what differs is written: a
second export changes nothing. A run gets its status last, so that one whose export did not end is still RUNNING.
The package mlflow is not needed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from math import isfinite
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_json_object,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy, Repeat
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRefused,
    basic_authorization_header,
    check_url_usable_and_secure,
    url_without_secrets,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import (
    NEVER_COMPARED_SETTINGS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_labels import (
    flatten_labels,
    recorded_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    NOT_BEGUN,
    Point,
    Run,
    point_label,
    run_with_counted_attempts,
)

API = "/api/2.0/mlflow"
#: Seconds in which a request is repeated while the server is busy or restarts.
RETRY_TIME = 300.0
#: The tag with the uuid of a point, by which its run is found again.
POINT_TAG = "seatrial.point"
#: Settings that a later session may change for a point that was measured, or that do not change what is measured.
_NO_PARAMETERS = (*NEVER_COMPARED_SETTINGS, "workload_max_lateness")
#: Most parameters, metrics and tags of one request, and most characters of a value, as MLflow 1.28 and newer take them.
MOST = {"params": 100, "metrics": 1000, "tags": 100}
LONGEST = {"params": 500, "tags": 5000}
LONGEST_NAME = 250
#: Targets that are written before MLflow, and have what MLflow does not.
_LINKED = ("s3", "opensearch")
_NOT_IN_NAMES = re.compile(r"[^\w\-./ ]", re.ASCII)

Document = dict[str, Any]


@dataclass(frozen=True)
class MlflowServer:
    """Address and credentials of a tracking server. Raises InputError for an address that is unusable or not secure.

    experiment: empty means one with the name of the project.
    """

    url: str
    experiment: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    authority: str = ""

    def __post_init__(self) -> None:
        check_url_usable_and_secure(self.name, self.url, https_only=True)

    @property
    def name(self) -> str:
        """The server in messages."""
        return f"MLflow {url_without_secrets(self.url)}"


@dataclass(frozen=True)
class MlflowRun:
    """What MLflow shows of a point. started, ended: milliseconds since the epoch, None if unknown."""

    identity: str
    name: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    started: int | None
    ended: int | None
    failed: bool

    @property
    def status(self) -> str:
        """Status of the run in MLflow."""
        return "FAILED" if self.failed else "FINISHED"


def mlflow_runs(run: Run, verdict: Mapping[str, Any], status: str) -> Iterator[MlflowRun]:
    """Yield the points of a run that were begun, with the attempts that count. status: valid or invalid."""
    record = run.record
    project = str(record.get("project") or "")
    links = {
        str(export["target"]): str(export["address"])
        for export in record.get("exported") or []
        if export["target"] in _LINKED
    }
    common = {
        "seatrial.run": run.id,
        "seatrial.project": project,
        "seatrial.presets": ", ".join(map(str, record.get("presets") or [])),
        "seatrial.verdict": str(verdict.get("verdict") or "unknown"),
        "seatrial.status": status,
        "mlflow.note.content": _note(run, verdict, links),
        "mlflow.source.name": "perfscale.seatrial",
        "mlflow.source.type": "JOB",
        "mlflow.source.git.commit": str((record.get("git") or {}).get("revision") or ""),
        **{f"seatrial.exported.{target}": address for target, address in links.items()},
    }
    for point in run_with_counted_attempts(run).points:
        if point.status in NOT_BEGUN:
            continue
        identity = _name(str(point.record.get("uuid") or f"{run.id}-{point.number}"))  # it goes into a query
        name = _shortened(f"{run.id} {point_label(point, project)}", LONGEST_NAME)
        ran = flatten_labels({"ran": recorded_labels(run, point).get("ran") or {}})
        tags = {
            **common,
            **{
                f"seatrial.{label}": formats.format_setting_value(value, LONGEST["tags"])
                for label, value in ran.items()
            },
            POINT_TAG: identity,
            "seatrial.point_number": point.number,
            "mlflow.runName": name,
        }
        yield MlflowRun(
            identity,
            name,
            _params(run, point, project),
            _metrics(point),
            {_name(tag): _shortened(value, LONGEST["tags"]) for tag, value in tags.items() if value},
            _milliseconds(point.record.get("started")),
            _milliseconds(point.record.get("ended")),
            failed=point.kpis is None or point.status == "failed" or verdict.get("verdict") == "error",
        )


def _note(run: Run, verdict: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """Return the note of a run, which MLflow shows as Markdown: the answer, the verdict, where the run is."""
    lines = [*map(str, verdict.get("answer") or []), f"Verdict of run `{run.id}`: {verdict.get('verdict') or 'none'}"]
    lines += [f"{target}: {address}" for target, address in links.items()]
    return "\n\n".join(lines)


def _params(run: Run, point: Point, project: str) -> dict[str, str]:
    """Return the settings of the project, those that somebody has set, and the values of the matrix.

    Other defaults are left out: the role of the project passes its own values to the roles that have them.
    """
    set_names = {name.partition(".")[0] for name in run.provenance}
    known = {
        name: value
        for name, value in (point.all_settings or {}).items()
        if (name.startswith(f"{project}_") or name in set_names)
        and value not in ("", None, [], {})
        and not any(fnmatchcase(name, pattern) for pattern in _NO_PARAMETERS)
    }
    values = {**known, **point.settings}
    return {_name(name): formats.format_setting_value(value, LONGEST["params"]) for name, value in values.items()}


def _metrics(point: Point) -> dict[str, float]:
    """Return the KPIs that have a value; of those with only a lower bound, the bound as ``<name>.at_least``."""
    values = {}
    for kpi in point.kpis or []:
        values[_name(kpi["name"])] = kpi["value"]
        values[_name(f"{kpi['name']}.at_least")] = kpi.get("at_least") if kpi["value"] is None else None
    return {name: float(value) for name, value in values.items() if value is not None and isfinite(value)}


def _name(text: str) -> str:
    return _shortened(_NOT_IN_NAMES.sub("_", text), LONGEST_NAME)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _milliseconds(stamp: Any) -> int | None:
    return round(datetime.fromisoformat(str(stamp)).timestamp() * 1000) if stamp else None


class MlflowExperiment:
    """One experiment on a tracking server, created if it does not exist. Raises AccessError, DataError."""

    def __init__(self, server: MlflowServer, project: str) -> None:
        self.server = server
        self.title = server.experiment or project or "seatrial"
        basic = basic_authorization_header(server.user, server.password) if server.user else ""
        self._http = HttpClient(
            server.name,
            server.url,
            f"Bearer {server.token}" if server.token else basic,
            server.authority,
            policy=HttpPolicy(retry_time=RETRY_TIME),
        )
        self.identity = self._find() or self._create()

    @property
    def address(self) -> str:
        """Its page."""
        return f"{self.server.url.rstrip('/')}/#/experiments/{self.identity}"

    def write(self, wanted: MlflowRun) -> str:
        """Write a run; return whether it was ``created``, ``updated`` or ``unchanged``."""
        known = self._run_of(wanted.identity)
        created = known is None
        if known is None:
            known = self._call(
                "POST",
                "/runs/create",
                {
                    "experiment_id": self.identity,
                    "run_name": wanted.name,
                    "start_time": wanted.started or int(time.time() * 1000),
                    "tags": _pairs({POINT_TAG: wanted.identity, "mlflow.runName": wanted.name}),
                },
                repeat="unsent",  # one that arrived all the same would make a second run
            ).get("run")
        with expect_documented_form(f"{self.server.name}: the run of a point", known):
            information, data = known["info"], known.get("data") or {}
            run_id = str(information["run_id"])
            changes = self._changes(wanted, data, run_id)
            ended = wanted.ended or int(information.get("end_time") or 0)
            same_end = int(information.get("end_time") or 0) == ended
            finished = information.get("status") == wanted.status and same_end
        for kind, entries in changes.items():
            remaining = iter(entries)
            while part := list(islice(remaining, MOST[kind])):
                self._call("POST", "/runs/log-batch", {"run_id": run_id, kind: part})
        if not finished:
            body = {"run_id": run_id, "status": wanted.status, **({"end_time": ended} if ended else {})}
            self._call("POST", "/runs/update", body)
        return "created" if created else "unchanged" if finished and not any(changes.values()) else "updated"

    def _changes(self, wanted: MlflowRun, data: Document, run_id: str) -> dict[str, list[Document]]:
        """Return what differs. Raises DataError for a parameter, which MLflow never changes."""
        params, tags = ({pair["key"]: pair["value"] for pair in data.get(kind) or []} for kind in ("params", "tags"))
        metrics = {metric["key"]: float(metric["value"]) for metric in data.get("metrics") or []}
        for name, value in wanted.params.items():
            if params.get(name, value) != value:
                raise DataError(
                    f"{self.server.name}: run {run_id} of experiment '{self.title}' has parameter {name} = "
                    f"{params[name]}, and the point {value}; MLflow never changes parameters: delete that run, and "
                    "export again"
                )
        now = int(time.time() * 1000)
        return {
            "params": _pairs({name: value for name, value in wanted.params.items() if name not in params}),
            # Of several values the one with the newest time counts.
            "metrics": [
                {"key": name, "value": value, "timestamp": now if name in metrics else wanted.ended or now, "step": 0}
                for name, value in wanted.metrics.items()
                if metrics.get(name) != value
            ],
            "tags": _pairs({name: value for name, value in wanted.tags.items() if tags.get(name) != value}),
        }

    def _find(self) -> str:
        """Return the id of the experiment, empty if there is none."""
        try:
            found = self._call("GET", f"/experiments/get-by-name?experiment_name={quote(self.title, safe='')}")
        except HttpRefused as error:
            if error.status == 404 and _code(error) == "RESOURCE_DOES_NOT_EXIST":
                return ""
            raise
        with expect_documented_form(f"{self.server.name}: GET /experiments/get-by-name", found):
            identity, deleted = str(found["experiment"]["experiment_id"]), found["experiment"].get("lifecycle_stage")
        if deleted == "deleted":
            raise DataError(
                f"{self.server.name}: experiment '{self.title}' was deleted: restore it, or set "
                "export_mlflow_experiment to another name"
            )
        return identity

    def _create(self) -> str:
        try:
            answer = self._call("POST", "/experiments/create", {"name": self.title})
            with expect_documented_form(f"{self.server.name}: POST /experiments/create", answer):
                return str(answer["experiment_id"])
        except HttpRefused as error:
            if _code(error) != "RESOURCE_ALREADY_EXISTS":  # by another run, since the look
                raise
        return self._find()

    def _run_of(self, identity: str) -> Any:
        """Return the run of a point as the server describes it, None if there is none.

        A server or proxy that ignores the filter would list a run of others, which is then changed.
        """
        query = {
            "experiment_ids": [self.identity],
            "filter": f"tags.`{POINT_TAG}` = '{identity}'",
            "max_results": 1,
            "order_by": ["attributes.start_time ASC"],
        }
        answer = self._call("POST", "/runs/search", query)
        with expect_documented_form(f"{self.server.name}: POST /runs/search", answer):
            runs = answer.get("runs") or []
            return next((run for run in runs if _tags(run).get(POINT_TAG) == identity), None)

    def _call(self, method: str, path: str, body: Document | None = None, repeat: Repeat = "always") -> Document:
        """Send a request and return the answer. Raises AccessError with the remedy."""
        try:
            answer = self._http.json(method, f"{API}{path}", body, repeat=repeat, what=self.server.name)
        except HttpRefused as error:
            hint = {
                401: "; check export_mlflow_token, or export_mlflow_user and its password",
                403: "; these credentials may not write here",
            }.get(error.status, "")
            if error.status in (404, 405) and not _code(error):
                hint = f"; it has no {API}{path.partition('?')[0]}: is this the address of an MLflow tracking server?"
            raise HttpRefused(f"{error}{hint}", error.reply, error.explanation) from error
        return require_json_object(f"{self.server.name}: {method} {path.partition('?')[0]}", answer)


def _tags(run: Document) -> dict[str, str]:
    return {pair["key"]: pair["value"] for pair in (run.get("data") or {}).get("tags") or []}


def _code(error: HttpRefused) -> str:
    """Return MLflow's code of an error, empty for the answer of another server."""
    body = error.reply.body
    return str(body.get("error_code") or "") if isinstance(body, Mapping) else ""


def _pairs(values: Mapping[str, str]) -> list[Document]:
    return [{"key": name, "value": value} for name, value in values.items()]


def write_mlflow_runs(server: MlflowServer, project: str, runs: Sequence[MlflowRun]) -> tuple[str, dict[str, int]]:
    """Write runs; return the address of the experiment, and the numbers created, updated and unchanged."""
    experiment = MlflowExperiment(server, project)
    counts = {"created": 0, "updated": 0, "unchanged": 0}
    for run in runs:
        counts[experiment.write(run)] += 1
    return experiment.address, counts
