# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that run a module: in place where that is possible, and showing its progress.

For each task Ansible packs a module with everything that it imports, and the module's process unpacks and compiles it:
about two seconds of processor time for our larger modules. On the local machine the files are there already, so the
module runs in a fork of this process (module_process.py). In all other cases (another machine, another Python, another
user) Ansible packs the module as usual.

A module with progress appends lines to its ``progress_file``. The action prints them at once, to a terminal, a pipe and
Ansible's log alike. If the task ends before the module does (Ctrl-C, ``timeout:``, the main process was killed), the
module gets SIGTERM, upon which it writes its results so far and exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import ProgressTail, show_line
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import convert_setting_values

from . import action_base, module_process
from .action_base import ansible_errors

#: Variable with the full names of modules that a role's task does not run but returns, for one task side_by_side.
DEFERRED = "run_deferred"


class InPlaceAction(ActionBase):
    """Base of actions that run the module of their task, in place where that is possible.

    PATHS: arguments that are paths of the user, or lists or dictionaries of them. PROGRESS: whether the module has an
    option progress_file.
    """

    PATHS: ClassVar[tuple[str, ...]] = ()
    PROGRESS: ClassVar[bool] = False
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _forked: tuple[str, bytes] | None = None  # the module that runs in a fork, and its arguments

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that the module gets, with absolute paths. May raise SeatrialError."""
        return {
            name: convert_setting_values.absolute_paths(value) if name in self.PATHS else value
            for name, value in arguments.items()
        }

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module and return its result."""
        self._replace_unusable_temp_folder(task_vars or {})
        result = super().run(tmp, task_vars)
        with ansible_errors():
            arguments = self.prepare(dict(self._task.args), task_vars or {})
        result.update(self._deferred(arguments, task_vars or {}) or self.execute(arguments, task_vars))
        return result

    def _deferred(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the call for a later task side_by_side if the variable run_deferred names the module, else nothing.

        Only what installs or creates something is deferred. The arguments may contain secrets.
        """
        if not task_vars.get(DEFERRED):
            return {}
        module = ansible_core.module_of_task(self._task)
        if module not in self._templar.template(task_vars[DEFERRED]) or arguments.get("state", "present") != "present":
            return {}
        call = {"module": module, "arguments": arguments, "progress": self.PROGRESS}
        return {"changed": False, "deferred": call, "_ansible_no_log": True}

    def _replace_unusable_temp_folder(self, task_vars: dict[str, Any]) -> None:
        """Let modules on this machine use Ansible's own temporary folder if they can't use the configured one."""
        if "ansible_remote_tmp" not in task_vars and action_base.remote_tmp_and_why_unusable(self)[1]:
            self._connection._shell.set_option("remote_tmp", constants.DEFAULT_LOCAL_TMP)

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module with these arguments and return its result."""
        name = ansible_core.module_of_task(self._task)
        result: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=task_vars, wrap_async=bool(self._task.async_val)
        )
        return result

    def _configure_module(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        """Pack nothing for a module that can run in a fork of this process."""
        self._forked = None
        namespace, _dot, name = module_name.rpartition(".")
        if namespace == "perfscale.seatrial" and self._is_local(task_vars):
            with contextlib.suppress(ImportError, TypeError):  # an unknown version of Ansible
                path = f"{module_process.MODULES}.{name}"
                nothing = ansible_core.forked_module_configuration(f"#!{sys.executable}", path)
                self._forked = name, ansible_core.encode_module_arguments(module_args)
                return nothing
        return super()._configure_module(module_name, module_args, task_vars)

    def _is_pipelining_enabled(self, module_style: str, wrap_async: bool = False) -> bool:
        """Transfer no file for a module that runs in a fork."""
        return self._forked is not None or bool(super()._is_pipelining_enabled(module_style, wrap_async))

    def _low_level_execute_command(self, cmd: str, *args: Any, **options: Any) -> dict[str, Any]:
        if self._forked is None or "in_data" not in options:
            result: dict[str, Any] = super()._low_level_execute_command(cmd, *args, **options)
            return result
        environment: dict[str, Any] = {}
        self._compute_environment_string(environment)
        return module_process.run_forked_module(*self._forked, environment, str(self._loader.get_basedir()))

    def _is_local(self, task_vars: dict[str, Any]) -> bool:
        """Return whether the module would run on this machine, as this user, with this Python."""
        if self._connection.transport != "local" or self._connection.become or self._task.async_val:
            return False
        delegated = self._task.delegate_to
        known = (task_vars.get("ansible_delegated_vars") or {}).get(delegated, {}) if delegated else task_vars
        python = known.get("ansible_python_interpreter")
        return bool(python) and self._templar.template(python) == sys.executable


#: Seconds between two reads of the file; a line is shown at most this long after it was written.
INTERVAL = 0.2


class ProgressAction(InPlaceAction):
    """Base of ``ActionModule``; override ``prepare`` to change the module's arguments beforehand."""

    PROGRESS = True
    _supports_async = False

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module, show its progress, and return its result."""
        with (
            _progress_file(arguments, self._connection.transport) as path,
            show_appended_lines(path, lambda line: show_line(line, stderr=True)),
        ):
            return super().execute({**arguments, "progress_file": path}, task_vars)


@contextlib.contextmanager
def _progress_file(arguments: dict[str, Any], transport: str) -> Iterator[str | None]:
    """Yield the progress file, empty; for a module on another machine that of the arguments, if any."""
    if transport != "local":
        yield arguments.get("progress_file")
        return
    target = arguments.get("progress_file")
    if target:
        Path(target).unlink(missing_ok=True)
        yield str(target)
        return
    handle, path = tempfile.mkstemp(prefix="seatrial-progress-", dir=constants.DEFAULT_LOCAL_TMP)
    os.close(handle)
    try:
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


@contextlib.contextmanager
def show_appended_lines(path: str | None, show: Callable[[str], None]) -> Iterator[None]:
    """Show each complete line appended to ``path`` while the body runs; end our process group if the body raises."""
    over = threading.Event()
    follower = SignalBlockingThread(target=_show_lines_until_over, args=(path, show, over), daemon=True)
    follower.start()
    try:
        yield
    except BaseException:
        # Ctrl-C or the task's timeout reached only this process: pass it on to the module.
        terminate_process_group()
        raise
    finally:
        over.set()
        follower.join(timeout=5)


def _show_lines_until_over(path: str | None, show: Callable[[str], None], over: threading.Event) -> None:
    parent = os.getppid()
    tail = ProgressTail(path)
    while not over.wait(INTERVAL):
        if os.getppid() != parent:
            # The main process has exited: only this thread can end the module now.
            terminate_process_group()
            return
        for line in tail.lines():
            show(line)
    for line in tail.lines():
        show(line)


def terminate_process_group() -> None:
    """Send SIGTERM to the other processes of our group: the module and its children.

    Each of Ansible's workers leads a process group. A process that does not lead its group sends nothing.
    """
    if os.getpgrp() != os.getpid():
        return
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.killpg(os.getpgrp(), signal.SIGTERM)
    if before is not None:
        signal.signal(signal.SIGTERM, before)
