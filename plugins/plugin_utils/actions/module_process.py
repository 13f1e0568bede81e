# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of this collection in a fork of Ansible's worker, instead of in a new interpreter.

A new interpreter imports Ansible's module library and ours again for each task: about 0.3 s of processor time. A fork
has both. The module gets its arguments and returns its result in Ansible's formats, and runs as any module does:
with Python's own signal handlers, and with only its own exit functions.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from multiprocessing import get_context
from typing import IO, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import (
    ENDING,
    signals_blocked,
    unblock_signals,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

MODULES = "ansible_collections.perfscale.seatrial.plugins.modules"


def run_forked_module(name: str, arguments: bytes, environment: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Run a module and return what Ansible's connections return of a command: rc, stdout and stderr.

    The process stays in the process group of the worker, by which an interrupted run ends it.

    Args:
        name: the module's name within this collection.
        arguments: as encode_module_arguments returns them.
        environment: variables that the task sets.
        folder: the module's working directory.
    """
    with _memory_file() as output, _memory_file() as errors:
        process = get_context("fork").Process(
            target=_run_in_fork, args=(name, arguments, environment, folder, output, errors), name=name
        )
        # A signal that arrives before the fork has its own handlers must not run those of the worker in it.
        with signals_blocked():
            process.start()
        try:
            process.join()
        except BaseException:  # the timeout of the task
            process.terminate()
            raise
        stdout, stderr = _read_text(output), _read_text(errors)
    status = process.exitcode or 0
    if status < 0 and "{" not in stdout:
        stdout = _failure(f"module {name} was ended by {signal.Signals(-status).name} before it had a result")
    rc = status if status >= 0 else 128 - status  # as a shell reports a signal
    return {
        "rc": rc,
        "stdout": stdout,
        "stdout_lines": stdout.splitlines(),
        "stderr": stderr,
        "stderr_lines": stderr.splitlines(),
    }


def _memory_file() -> IO[bytes]:
    """Return an empty file that needs no space on a disk, where the system has such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("seatrial-module"), "w+b")
    return tempfile.TemporaryFile()


def _read_text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "surrogateescape")


def _failure(message: str, details: str = "") -> str:
    return json.dumps({"failed": True, "msg": message, **({"exception": details} if details else {})})


def _run_in_fork(
    name: str,
    arguments: bytes,
    environment: Mapping[str, Any],
    folder: str,
    output: IO[bytes],
    errors: IO[bytes],
) -> None:
    gc.freeze()  # collections need not visit the objects of Ansible
    atexit._clear()
    _reset_signals()
    os.chdir(folder)
    os.environ.update({key: str(value) for key, value in environment.items()})
    for stream, descriptor in ((output, 1), (errors, 2)):
        os.dup2(stream.fileno(), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) for descriptor in (1, 2))
    try:
        _run_module(name, arguments)
    except Exception as error:
        details = traceback.format_exc()
        print(_failure(f"module {name} failed unexpectedly: {type(error).__name__}: {error}", details))
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()  # multiprocessing runs them in some versions of Python only


def _reset_signals() -> None:
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    unblock_signals()


def _run_module(name: str, arguments: bytes) -> None:
    ansible_core.start_as_module(arguments)
    importlib.import_module(f"{MODULES}.{name}").main()
