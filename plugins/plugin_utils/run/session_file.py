# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file in which a session states its run directory, comparison or error, for the caller of ansible-playbook."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: Environment variable with the path of the file.
VARIABLE = "SEATRIAL_SESSION_FILE"
#: Folders that a result names: of the run, of the comparison.
KEYS = ("run_dir", "comparison")
#: Answer of a session that was asked for no run.
ANSWER = "answer"


Outcome = TypeVar("Outcome", bound=dict[str, Any] | InputError)


def noted(outcome: Outcome) -> Outcome:
    """Write folders and answer of a result, or the text of an error, into the file if one is asked for.

    Returns ``outcome``.
    """
    if path := os.environ.get(VARIABLE):
        content: dict[str, Any] = {"error": str(outcome)}
        if not isinstance(outcome, InputError):
            content = {key: outcome[key] for key in (*KEYS, ANSWER) if key in outcome}
        files.replace_text(Path(path), json.dumps(content) + "\n")
    return outcome
