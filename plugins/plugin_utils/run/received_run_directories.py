# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run directory that was copied, moved or received: it is reported on, and used for nothing else without a word.

Its settings, records and points say on which clusters and machines a session acts. Checks of single settings follow in
the modules beside this one, also for a directory that the user trusts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from .foreign_kubeconfigs import is_own_uncopied_directory

#: The variable of ``-e`` with which a user trusts the run directory of a session.
TRUST = "trust_run_dir"
#: Phases that change nothing outside of the run directory.
REPORTING = {"settings", "report"}


def refuse_untrusted_directory(directory: Path, extra: Mapping[str, Any], chosen: Collection[str]) -> None:
    """Raise InputError if a session would act by the words of a run directory that is not ours.

    extra: the variables of ``-e``; only these can trust. chosen: the phases of the session, or a role call.
    """
    if set(chosen) <= REPORTING or _is_trusted(extra) or is_own_uncopied_directory(directory):
        return
    raise InputError(
        f"{directory} was copied, moved or received, belongs to another user, or is of an older version: it can be "
        f"reported on (--tags report), but its words do not lead a session that does more. If the run is yours, "
        f"or you trust who sent it, give {extra_vars_arguments.extra_vars_shell_text({TRUST: True})}"
    )


def _is_trusted(extra: Mapping[str, Any]) -> bool:
    try:
        return bool(boolean(extra.get(TRUST, False)))
    except TypeError as error:
        raise InputError(f"-e {TRUST} is true or false, not '{extra[TRUST]}'") from error
