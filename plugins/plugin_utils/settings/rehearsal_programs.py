# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a run's rehearsal cluster before it starts: known components, and no build in a job of AWX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_binaries
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.rehearsal_options import Options

from . import workload_kinds

#: AWX passes this variable to each of its jobs.
JOB = "awx_job_id"
#: Who sets one of these has a place for programs that outlives the job's container.
PLACES = ("rehearsal_cache_dir", "rehearsal_download_url")


def check(
    folder: Path,
    settings: Mapping[str, Any],
    given: Collection[str],
    job: object,
    set_by: Callable[[str], str],
    places: Sequence[Path] = (),
) -> None:
    """Raise InputError for an unknown component, or if programs would be built in the container of a job of AWX.

    folder: of the components. given: settings that some layer sets. job: id of the job, None outside of AWX. set_by:
    returns the source of a setting in brackets. places: folders with kinds of workloads of the project.
    """
    prefix = "rehearsal_"
    values = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    if isinstance(values.get("components"), list):
        values["components"] = workload_kinds.components(values["components"], folder, places)
    options = Options.of({**values, "name": "", "components_dir": str(folder)})
    components = options.select(options.components)
    if job is None or any(name in given for name in PLACES):
        return
    lacking = component_binaries.missing(components, options.sources)
    if lacking:
        minutes = sum(one.build.minutes for one in lacking)
        names = formats.join_with_and([one.name for one in lacking])
        raise InputError(
            f"cluster_provider is rehearsal{set_by('cluster_provider') or ' (the default)'}, and this job of AWX has"
            f" no programs for {names}: building them takes up to {minutes:.0f} min and is lost with the job's"
            " container. Set cluster_provider=existing and a credential with a kubeconfig, or rehearsal_cache_dir to a"
            " folder of a volume"
        )
