# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Creates the objects that the workloads of a load share, such as the runtime of TrainJobs, before the load.

They have the labels of run and point, by which they are removed as the workloads are. An object that exists already, of
a load that is continued or of another client, is applied again, which changes nothing if it is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import format_object_title

from ..kinds.stage_definitions import compile_jmespath
from ..plan.workload_templates import RenderedTemplate

#: Timeout of a condition without one, and polling interval, seconds.
_READY, _POLL = 300.0, 0.2
_PAUSE = 0.5


def create_shared_objects(
    client: Client,
    rendered: list[RenderedTemplate],
    retry_time: float,
    say: Callable[[str], None],
    check: bool = False,
) -> None:
    """Create the shared objects of all templates, and wait until they are ready. check: they are only checked.

    Raises InputError for what the API server refuses, WaitTimeout naming the condition; ApiError.
    """
    for template in rendered:
        _check_ready(template)
    for template in rendered:
        for manifest in template.shared:
            _apply(client, template, manifest, retry_time, say, check)
        if not check:
            for condition in template.template.ready:
                _await_ready(client, template, condition, say)


def _check_ready(template: RenderedTemplate) -> None:
    """Check the conditions of the shared objects of a template. Raises InputError."""
    kinds = {manifest["kind"] for manifest in template.shared}
    for condition in template.template.ready if template.shared else ():
        where = f"template '{template.template.name}', ready"
        compile_jmespath(where, condition["jmespath"])
        if condition["kind"] not in kinds:
            hint = suggest_similar_name(condition["kind"], kinds)
            raise InputError(f"{where}: kind '{condition['kind']}' is none of the shared objects{hint}")


def _apply(
    client: Client,
    template: RenderedTemplate,
    manifest: dict[str, Any],
    retry_time: float,
    say: Callable[[str], None],
    check: bool,
) -> None:
    deadline = time.monotonic() + retry_time
    title = format_object_title(manifest)
    while True:
        try:
            client.apply(manifest, check=check)
            return
        except ApiError as error:
            if not error.busy:
                where = f"template '{template.template.name}'"
                raise InputError(
                    f"{where}: the API server refuses {title}, which its workloads share: {error}"
                ) from error
            if time.monotonic() + _PAUSE > deadline:
                raise
            say(f"{title} can't be created now, and is tried again: {error}")
        time.sleep(_PAUSE)


def _await_ready(
    client: Client, template: RenderedTemplate, condition: dict[str, Any], say: Callable[[str], None]
) -> None:
    """Wait for a condition of the shared objects of a kind."""
    from jmespath.exceptions import JMESPathError  # it is needed for conditions only

    expression = compile_jmespath(f"template '{template.template.name}', ready", condition["jmespath"])
    timeout = float(condition.get("timeout") or _READY)
    for manifest in template.shared:
        if manifest["kind"] != condition["kind"]:
            continue
        kind, meta, title = client.kind_of(manifest), manifest["metadata"], format_object_title(manifest)

        def look(kind: Any = kind, meta: Any = meta, title: str = title) -> tuple[bool | None, str]:
            live = client.get(kind, meta["name"], meta["namespace"])
            try:
                if live is not None and expression.search(live):
                    return True, ""
            except JMESPathError as error:  # such as a function of a field that is not there yet
                return None, f"{title}: {condition['jmespath']} can't be evaluated yet: {error}"
            return None, f"{title}: {condition['jmespath']} is not true yet"

        wait_until(look, timeout, say, lambda state: f"{state} after {timeout:g} s", _POLL)
