# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that a run directory names: of one that is not ours, none gets a secret unless this session names it, too."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    convert_setting_values,
    read_secret_settings,
    setting_templates,
    settings_naming_servers,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

from .files_named_by_foreign_runs import HOSTS, INVENTORY
from .foreign_kubeconfigs import extra_vars_naming_holdings, is_own_uncopied_directory


def refuse_foreign_addresses(
    directory: Path | None,
    context: SettingsContext,
    effective: EffectiveSettings,
    chosen: Collection[str],
    secrets: Mapping[str, str | None],
) -> None:
    """Raise InputError if a continued run would send a secret to a server that only its directory names.

    Args:
        directory: The run directory; None for a new run.
        context: The settings of this session.
        effective: The settings of the run.
        chosen: The phases of this session.
        secrets: Secret setting -> its value in this session.
    """
    if directory is None or is_own_uncopied_directory(directory) or set(chosen) <= {"settings"}:
        return
    trees = [effective.settings, *(point.settings for point in effective.points)]
    _refuse(directory, context, trees, {name for name, value in secrets.items() if value}, chosen)


def refuse_foreign_addresses_of_call(step: Path, context: SettingsContext, values: Iterable[Mapping[str, Any]]) -> None:
    """Raise InputError if a role call would send a secret to a server that only its run directory names.

    values: the contents of the files that are loaded as variables.
    """
    if is_own_uncopied_directory(step.parent):
        return
    trees = [*values]
    variables = {name: value for tree in [*trees, context.variables] for name, value in tree.items()}
    names = {name for receiver in settings_naming_servers.RECEIVERS.values() for name in receiver.secrets}
    _refuse(step.parent, context, trees, {name for name in names if _is_set(name, variables)}, None)


def extra_vars_naming_external_resources(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``-e`` names of clusters, leases, servers and hosts: a later session on a received run needs it."""
    names = (*settings_naming_servers.RECEIVERS, *sorted(HOSTS), INVENTORY)
    named = {**extra_vars_naming_holdings(extra), **{name: extra[name] for name in names if extra.get(name)}}
    return {
        name: convert_setting_values.absolute_path(value)
        if name.endswith(("_kubeconfig", INVENTORY)) and not setting_templates.has_template(value)
        else value
        for name, value in named.items()
    }


def _is_set(name: str, variables: Mapping[str, Any]) -> bool:
    """Return whether a session has a secret; one that can't be read counts, too."""
    try:
        return bool(read_secret_settings.read_secret_if_given(name, variables, os.environ, lambda value: value))
    except InputError:
        return True


def _refuse(
    directory: Path,
    context: SettingsContext,
    trees: Iterable[Mapping[str, Any]],
    secrets: Collection[str],
    phases: Collection[str] | None,
) -> None:
    known = settings_naming_servers.known_addresses(context.trusted_values())
    for tree in trees:
        for setting, text in settings_naming_servers.addresses_receiving_secrets(tree):
            receiver = settings_naming_servers.RECEIVERS[setting]
            if phases is not None and not receiver.is_used(tree, phases):
                continue
            sent = next((name for name in receiver.secrets if name in secrets), receiver.others)
            if sent and (setting, text) not in known:
                what, sent = ("place", f"a message with {sent}") if receiver.service else ("server", sent)
                raise InputError(
                    f"{directory}: {setting} names the {what} {text}, to which {sent} of this session would be sent, "
                    "and this run directory was copied, moved or received, or belongs to another user: it is "
                    f"sent there only if you name it. If you trust it, give {_to_name(setting, text, tree)}"
                )


def _to_name(setting: str, text: str, tree: Mapping[str, Any]) -> str:
    """Return what a user gives to have a secret sent; also what he gives to have no message sent."""
    whole = str(tree.get(setting)) == text
    again = extra_vars_arguments.extra_vars_shell_text({setting: text}) if whole else f"{setting} again by -e"
    if not settings_naming_servers.RECEIVERS[setting].service:
        return again
    return f"{again}, or none: {extra_vars_arguments.extra_vars_shell_text({settings_naming_servers.SERVICES: []})}"
