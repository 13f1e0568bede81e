# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job that downloads sources to a volume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import volume_job
from .sources import Source
from .volume_job import Event, Say, VolumeJob


@dataclass(frozen=True)
class DownloadSpec:
    """What downloads, and from where.

    script: the program. credentials: name -> secret value, empty ones are left out. parallel: files at once.
    timeout: of the whole job, in seconds. authority: certificate authorities (PEM) in addition to those of the image.
    """

    namespace: str
    claim: str
    run_id: str
    image: str
    script: str
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    hub: str = "https://huggingface.co"
    s3: str = ""
    region: str = ""
    authority: str = ""
    parallel: int = 4
    timeout: float = 3600.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    service_account: str = ""

    def job(self, sources: list[Source]) -> VolumeJob:
        """Return the job that downloads these sources."""
        specification = {
            "folder": volume_job.FOLDER,
            "hub": self.hub,
            "s3": self.s3,
            "region": self.region,
            "authority": f"{volume_job.PLACE}/ca.crt" if self.authority else "",
            "parallel": self.parallel,
            "sources": [one.document() for one in sources],
        }
        return VolumeJob(
            f"download to claim {self.claim}",
            volume_job.object_name("storage", self.claim, self.run_id),
            self.namespace,
            self.claim,
            self.run_id,
            self.image,
            self.script,
            specification,
            {"ca.crt": self.authority} if self.authority else {},
            self.credentials,
            self.timeout,
            self.node_selector,
            self.tolerations,
            self.service_account,
        )


def run(client: Client, spec: DownloadSpec, sources: list[Source], say: Say) -> list[dict[str, Any]]:
    """Download the sources; return a record of each.

    Raises AccessError with the reason if something could not be downloaded, and the errors of volume_job.run().
    """
    number = len(sources)
    events = volume_job.run(client, spec.job(sources), say, lambda found: _progress(found, number))
    found = [one for one in events if one["event"] == "source"]
    if len(found) < number:
        raise AccessError(f"download to claim {spec.claim}: its log has {len(found)} of {number} sources")
    return found


def _progress(events: list[Event], number: int) -> str:
    last = next((one for one in reversed(events) if one["event"] == "progress"), None)
    if last is None:
        return ""
    done = sum(1 for one in events if one["event"] == "source")
    return f"{last['done'] / 2**20:,.0f} of {last['total'] / 2**20:,.0f} MiB, {done} of {number} sources"
