# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of settings that roles declare.

A role declares checks of its settings in meta/checks.yml. An entry is one of these; ``setting`` names the setting that
an error is about:

- ``keys``, ``what``: each key of the setting, or of its elements, must be one of ``keys`` (any, if there are none).
  ``numbers``: those of them whose values are numbers
- ``one_of``: what the setting may be
- ``distributions``: place in the setting -> a distribution of random numbers, each of which must be valid
- ``node_levels``: levels of the topology of simulated nodes, which must fit into each other
- ``partitions``, ``slices``, ``memory_mib``: partitions of simulated GPUs, which must fit into a GPU that has so much
- ``refuse_when``, ``because``: a condition on the settings under which nothing may run
- ``requests``: options of module inference_load, which must be valid
- ``failures``, ``seed``: options of module workload_submit, which must be valid
- ``more``: further entries
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import random_draws
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import (
    simulated_gpu_slices,
    simulated_node_pool,
)

from . import failure_and_request_checks, secrets_inside_settings
from .setting_templates import Render
from .settings_layers import SettingsError

Problem = tuple[str, str]

#: Most known keys that an error lists.
_MOST_LISTED = 12


def read_checks(path: Path) -> list[dict[str, Any]]:
    """Return the checks of a role's meta/checks.yml, none if there is no such file."""
    return (files.read_yaml(path) if path.exists() else None) or []


def first_refused_setting(
    checks: Sequence[dict[str, Any]], settings: Mapping[str, Any], render: Render
) -> Problem | None:
    """Return the first setting that a check refuses, and why; None if there is none."""
    return next(_problems_found_by_checks(checks, settings, render), None)


def _problems_found_by_checks(
    entries: Sequence[dict[str, Any]], settings: Mapping[str, Any], render: Render
) -> Iterator[Problem]:
    conditions = [f"({entry['refuse_when']}) | bool" for entry in entries if "refuse_when" in entry]
    fine = not conditions or _none_holds(conditions, settings, render)
    for entry in entries:
        if "more" in entry:
            yield from _problems_found_by_checks(render(entry["more"], settings)[0], settings, render)
        elif "requests" in entry:
            if problem := failure_and_request_checks.setting_refused_by_inference_load(
                entry["requests"], settings, render
            ):
                yield problem
        elif "node_levels" in entry:
            levels, unknown = render(entry["node_levels"], settings)
            yield from () if unknown else _levels_that_do_not_fit(entry["setting"], levels)
        elif "partitions" in entry:
            yield from _partitions_that_do_not_fit(render(entry, settings))
        elif "distributions" in entry:
            specs, unknown = render(entry["distributions"], settings)
            yield from () if unknown else _invalid_distributions(entry["setting"], specs)
        elif "one_of" in entry:
            name, known = entry["setting"], render(entry["one_of"], settings)[0]
            if settings[name] not in known:
                yield name, str(formats.unknown_value_error(name, settings[name], filter(None, known)))
        elif "failures" in entry:
            if problem := failure_and_request_checks.setting_refused_for_failures(entry, settings, render):
                yield problem
        elif "keys" in entry:
            yield from _unfit_keys(render(entry, settings)[0], settings)
        elif not fine and render("{{ (" + str(entry["refuse_when"]) + ") | bool }}", settings)[0] is True:
            name = entry["setting"]
            value = secrets_inside_settings.mask_setting(name, settings[name])
            if isinstance(value, Mapping):  # without the options that are not set
                value = {key: entry for key, entry in value.items() if entry is not None}
            value = "empty" if value == "" else value
            yield name, f"{name} is {value}: {' '.join(entry['because'].split())}"


def _levels_that_do_not_fit(name: str, levels: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    try:
        simulated_node_pool.check_topology_levels(
            [simulated_node_pool.TopologyLevel(str(level["label"]), int(level["nodes"])) for level in levels]
        )
    except InputError as error:
        yield name, str(error)


def _partitions_that_do_not_fit(rendered: tuple[Any, Any]) -> Iterator[Problem]:
    """``rendered``: an entry with partitions, and what of it is not known yet."""
    entry, unknown = rendered
    if unknown:
        return
    try:
        simulated_gpu_slices.GpuPartitioning(
            int(entry["slices"]),
            tuple(
                simulated_gpu_slices.GpuPartition(str(part["profile"]), int(part["slices"]), int(part["memory_mib"]))
                for part in entry["partitions"]
            ),
        ).check(int(entry["memory_mib"]))
    except InputError as error:
        yield entry["setting"], str(error)


def _invalid_distributions(name: str, specs: Mapping[str, Any]) -> Iterator[Problem]:
    for place, spec in specs.items():
        try:
            random_draws.draw_number_for_workload(0, spec)
        except InputError as error:
            yield name, f"{place}: {error}"


def _none_holds(conditions: Sequence[str], settings: Mapping[str, Any], render: Render) -> bool:
    """Return whether all conditions are known to be false: one template, because each costs milliseconds."""
    try:
        return render("{{ " + " or ".join(conditions) + " }}", settings)[0] is False
    except SettingsError:
        return False  # they are evaluated one by one; one before may hold


def _unfit_keys(entry: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the keys that are unknown, and those with a value that is no number although it has to be one."""
    name, known = entry["setting"], entry["keys"]
    value = settings[name] if known else []
    elements = [(f"{name}[{place}]", part) for place, part in enumerate(value)] if isinstance(value, list) else []
    for where, element in elements or [(name, value)]:
        for key in element:
            if key not in known:
                kind, of, owner = entry["what"].partition(" of ")
                every = f"; keys: {', '.join(map(str, known))}" if len(known) <= _MOST_LISTED else ""
                yield name, f"{where}: unknown {kind} '{key}'{of}{owner}{suggest_similar_name(key, known)}{every}"
            elif key in entry.get("numbers", ()) and element[key] is not None and not _is_number(element[key]):
                yield name, f"{where}: {key} is '{element[key]}', it must be a number"


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
