# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CI job, from its environment to the request that it runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import github
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    outside_settings,
    preset_definitions,
    project_role,
    settings_catalogue,
)

from . import ci_engines, ci_request, directives, pull_request
from .ci_engines import CiJob
from .ci_request import CiOffer, CiRequest
from .pull_request import PullRequest, Requesters

ROOT = project_role.ROOT
ENGINES = ROOT / "roles" / "ci" / "files" / "engines"


def read(given: Mapping[str, Any], variables: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of module ci_request for its options. variables: those of the task. Raises InputError."""
    job, pull = _job(given, environ)
    texts: list[directives.Text] = []
    notes: list[str] = []
    if pull:
        texts, notes = pull_request.texts(pull, Requesters(given["associations"], given["users"]), job.test)
    asked = directives.parse(texts, job.test)
    offer = _offer(given, variables)
    own = CiRequest(given["project"], list(given["presets"]))
    if asked.help and pull and pull.trigger:
        return {**_result(job, own, notes, ci_request.help_text(offer, own, job.test), given), "help": True}
    if pull and pull.trigger and not texts:
        return _result(
            job, own, notes, f"The comment asks for no run of {job.test or 'this job'}: /help lists what it can.", given
        )
    return _result(job, ci_request.of(asked, own, offer), notes, "", given)


def _job(given: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[CiJob, PullRequest | None]:
    """Return the job and its pull request, None if it runs for none. An event knows more than the environment."""
    engines = ci_engines.load(ENGINES)
    known = {"event": given["event_file"] or "", "test": given["test"], "started": stamp().replace(":", "")}
    job = ci_engines.job(engines, given["engine"], environ, known)
    pull = pull_request.of_event(_event(Path(job.event))) if job.event else None
    if pull:
        more = {"pull_request": pull.number, "repository": pull.repository}
        job = ci_engines.job(engines, given["engine"], environ, {**known, **more})
        # For a comment, GitHub Actions runs on the default branch and gives its commit.
        job = dataclasses.replace(job, revision=pull.revision)
    elif given["read_pull_request"] and job.pull_request:
        pull = _of_api(given["github"], job)
    return job, pull


def _of_api(given: Mapping[str, Any], job: CiJob) -> PullRequest:
    """Read the pull request of a job from GitHub. Raises AccessError."""
    target = github.GitHubTarget(job.repository, job.pull_request)
    api = github.from_options(given, target.repository, str(given.get("ca_file") or ""))
    return pull_request.of_api(github.pull_request(api, target), github.comments(api, target))


def _event(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the event of the job can't be read from {path}: {error}") from error


def _offer(given: Mapping[str, Any], variables: Mapping[str, Any]) -> CiOffer:
    catalogue = settings_catalogue.load(ROOT)
    return CiOffer(
        ci_request.projects(ROOT / "playbooks"),
        lambda project: preset_definitions.by_name(preset_definitions.of(variables, project)),
        outside_settings.load(ROOT).permitting(given["variables"], catalogue),
        catalogue,
        given["permitted_presets"],
        given["clusters"],
    )


def _result(job: CiJob, request: CiRequest, notes: list[str], answer: str, given: Mapping[str, Any]) -> dict[str, Any]:
    export = f"{given['export_url'].rstrip('/')}/{job.path}" if given["export_url"] else ""
    facts = {"run": not answer, "help": False, "answer": answer, "notes": notes, "export_url": export}
    return {**dataclasses.asdict(request), **facts, "job": dataclasses.asdict(job)}
