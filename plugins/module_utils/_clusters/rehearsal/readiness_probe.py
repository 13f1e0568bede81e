# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readiness probes: a process is asked over HTTP until it is ready, or has ended."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout

from . import instance_processes
from .pki import authority_file

#: Seconds for one request; a server that hangs is asked again on a new connection.
PATIENCE = 5.0


@dataclass(frozen=True)
class Question:
    """A GET request over HTTP(S); status 200 means ready."""

    url: str
    authority: str = "cluster"
    certificate: str = ""


def ask(question: Question, pki: Path) -> str:
    """Send the request once; return "" if the process is ready, else the reason why not."""
    parts = urlsplit(question.url)
    if parts.hostname is None:
        return f"{question.url} has no host"
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=str(pki / f"{authority_file(question.authority)}.crt"))
            if question.certificate:
                context.load_cert_chain(pki / f"{question.certificate}.crt", pki / f"{question.certificate}.key")
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=PATIENCE, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            body = answer.read().decode("utf-8", "replace").strip()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    if answer.status == 200:
        return ""
    failing = [one for one in body.splitlines() if one.startswith("[-]")]
    return f"{answer.status} {'; '.join(failing) or body[:200]}"


def wait(name: str, ask_it: Callable[[], str], pid: int, log: Path, timeout: float, what: str) -> None:
    """Call ``ask_it`` at growing intervals until it returns "". ``pid``: the process that must run meanwhile.

    Raises ProcessError if it ends, WaitTimeout after ``timeout`` seconds; both with the end of its log.
    """
    deadline = time.monotonic() + timeout
    pause = 0.02
    while answer := ask_it():
        processes.reap(pid)
        if processes.ticks_of(pid) is None:
            raise ProcessError(f"{name} ended while it was starting. The end of {log}:\n{instance_processes.tail(log)}")
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"{name} is not ready after {timeout:.0f} s: waited for {what}, last answer: {answer}."
                f" The end of {log}:\n{instance_processes.tail(log)}"
            )
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
