# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a download."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import read_sources
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_volume import DownloadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.volume_job import volume_job_manifests

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
