"""Texts of others (logs, events, error pages) that are made to delay a search: it takes time in proportion to them.

A quadratic search of such a text takes minutes to hours; a limit of processor time ends the test then.
"""

from __future__ import annotations

import re
import signal

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import installer_commands
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpReply
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    group_messages,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import training_log
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import gpu_burn, image_preload

#: Bytes of a text, and seconds of processor time for all its searches, which take a few tenths of one.
SIZE, LIMIT = 400_000, 10.0
#: What the begin of a match repeats: each pattern is tried at each of them.
PARTS = [
    "eyJ",
    "eyJhbGciOiJ.",
    "eyJhbGciOiJ.eyJ",
    "bearer ",
    "Bearer aaaa",
    "-----BEGIN ",
    "-----BEGIN A ",
    "-----BEGIN " + "PRIVATE KEY-----",  # put together, so that this file has none
    "-----END ",
    "sha256~",
    "AKIA",
    "hf_",
    "hf_aaaaaaa",
    "ghp_",
    "glpat-",
    "a://",
    "a://b:",
    "a://b:c@",
    "LS0tLS1CRUdJT",
    "QUFB" * 12 + "\n",
    "QUFB" * 12 + "\\n",
    "QUFB" * 12 + "\n    ",
    "token",
    "token=",
    "secret_",
    "password",
    "TOKEN: ",
    '"token":"',
    "&#x65;",
    "&lt;",
    "\\u0065",
    "00000000: 6162 6364 ",
    "6162 6364\n",
    "61626364" * 4 + "\n",
    "97, 98, ",
    "97\n",
    "\\",
    '"',
    "'",
    "%41",
    " ",
    "\n",
    "\t\n",
    "<",
    "<title ",
    "<title>",
    "lease=",
    "preemption",
    "no new claims to deallocate, ",
    "Successfully pulled image ",
    "level=a msg=",
    'level=a msg="',
    "GPU 1: ",
    "{",
    "{'a': ",
    "| a ",
    "\x1b[",
    "a",
    "0",
    "a_",
]


@pytest.fixture
def limited():
    """End what takes more than LIMIT of processor time."""

    def end(_signal, _frame):
        raise TimeoutError(f"more than {LIMIT} s of processor time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("part", PARTS)
def test_a_text_of_others_is_searched_in_linear_time(part):
    text = part * (SIZE // len(part)) + "\n\x00"
    scanner = SecretScanner({"one": "pass/word+7d1f", "two": "abc\ndef-ghi<&>"})
    scanner.in_text(text)
    scanner.masked(text)
    installer_commands.first_cause_in_installer_log(text)
    group_messages([text])
    quads_records.read_tag(text)
    quads_records.without_tag(text)
    assert len(HttpReply(500, text.encode()).explanation) <= 301
    patterns = [*vars(training_log).values(), *vars(image_preload).values(), *vars(gpu_burn).values()]
    for pattern in patterns:
        if isinstance(pattern, re.Pattern):
            pattern.search(text)
