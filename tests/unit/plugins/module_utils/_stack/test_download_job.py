# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a download."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import read_sources
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_volume import DownloadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.volume_job import (
    name_of_job_objects,
    volume_job_manifests,
)

TOKEN = "hub-token-91c2"


def spec(**more: object) -> DownloadSpec:
    return DownloadSpec("training", "models", "t1122-abcdef", "r/python:3", "print()", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_a_token_is_in_the_secret_and_nowhere_else(token: str) -> None:
    made = {
        one["kind"]: one
        for one in volume_job_manifests(spec(credentials={"hub_token": token}).job(read_sources(["org/m@hf"], {})))
    }
    secret = made.pop("Secret", {})
    assert secret.get("stringData") == ({"hub_token": TOKEN} if token else None)
    assert TOKEN not in json.dumps(made)
    volumes = {one["name"]: one for one in made["Job"]["spec"]["template"]["spec"]["volumes"]}
    assert ("credentials" in volumes) is bool(token)


def test_every_object_has_the_label_of_its_run_and_the_job_an_end() -> None:
    made = volume_job_manifests(spec(timeout=90.0, authority="PEM").job(read_sources(["org/m@hf"], {})))
    assert all(one["metadata"]["labels"]["perfscale.seatrial/run"] == "t1122-abcdef" for one in made)
    job = next(one for one in made if one["kind"] == "Job")
    assert job["spec"]["activeDeadlineSeconds"] == 90 + 30 and job["spec"]["backoffLimit"] == 0
    data = next(one for one in made if one["kind"] == "ConfigMap")["data"]
    assert data["ca.crt"] == "PEM" and json.loads(data["specification.json"])["authority"] == "/etc/seatrial/ca.crt"


@pytest.mark.parametrize(
    "claim", ["models", "m" * 42, "m" * 43, "granite-3-1-8b-instruct-and-the-alpaca-dataset-kept", "m" * 253]
)
def test_objects_of_two_runs_have_different_names_also_for_a_long_claim(claim: str) -> None:
    names = [name_of_job_objects("storage", claim, run) for run in ("t1129-k3f9xa", "t1129-zzzzzz")]
    assert names[0] != names[1] and names[0].endswith("-t1129-k3f9xa")  # those of this name are deleted
    assert all(len(name) <= 63 and name.startswith("storage-m" if claim[0] == "m" else "storage-g") for name in names)


def test_two_long_claims_have_different_jobs() -> None:
    first, second = (name_of_job_objects("files", f"{'c' * 60}{end}", "t1129-k3f9xa") for end in ("-a", "-b"))
    assert first != second
