# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that run a module: in place where that is possible, and showing its progress.

For each task Ansible packs a module with everything that it imports, and the module's process unpacks and compiles it:
about two seconds of processor time for our larger modules. On the local machine the files are there already. The module
gets the same arguments in the same way. In all other cases (another machine, another Python, another user) Ansible
packs the module as usual.

A module with progress appends lines to its ``progress_file``. The action prints them at once, to a terminal, a pipe and
Ansible's log alike. If the task ends before the module does (Ctrl-C, ``timeout:``, the main process was killed), the
module gets SIGTERM, upon which it writes its results so far and exits.
"""

from __future__ import annotations

import contextlib
import json
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
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import ProgressTail
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import setting_values

from . import action_base
from .action_base import ansible_errors

_PROFILE = "legacy"
#: Variable with the full names of modules that a role's task does not run but returns, for one task side_by_side.
DEFERRED = "run_deferred"
_PROGRAM = """{shebang}
import runpy
import sys
import types

for name, roots in (("ansible_collections", {roots!r}), ("ansible_collections.perfscale", {roots!r}[:1])):
    # Created explicitly: where Ansible's own collections are installed, a package of this name hides others.
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [root + "/" + name.replace(".", "/") for root in roots]
from ansible.module_utils import basic

basic._ANSIBLE_ARGS = {arguments!r}
basic._ANSIBLE_PROFILE = {profile!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def collections_parent_folder() -> Path | None:
    """Return the folder that holds ansible_collections, if this file lies in a collection below it."""
    parents = Path(__file__).parents
    below = [parent.name for parent in reversed(parents[:6])]
    ours = ["ansible_collections", "perfscale", "seatrial", "plugins", "plugin_utils", "actions"]
    return parents[6] if below == ours else None


def module_program(module: str, arguments: dict[str, Any], folder: Path) -> Any:
    """Return the program that runs ``module`` (its full name) from ``folder``, as an object that Ansible would make.

    Raises ImportError, TypeError if Ansible's internals are not those of ansible-core 2.19 to 2.21.
    """
    from ansible.executor.module_common import _BuiltModule
    from ansible.module_utils.common.json import Direction, get_module_encoder

    encoder = get_module_encoder(_PROFILE, Direction.CONTROLLER_TO_MODULE)
    encoded = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}, cls=encoder).encode()
    namespace, collection, name = module.split(".")
    full = f"ansible_collections.{namespace}.{collection}.plugins.modules.{name}"
    shebang = f"#!{sys.executable}"
    roots = [str(folder), *(path for path in _collection_search_folders() if path != str(folder))]
    text = _PROGRAM.format(shebang=shebang, roots=roots, arguments=encoded, profile=_PROFILE, module=full)
    return _BuiltModule(
        b_module_data=text.encode(), module_style="new", shebang=shebang, serialization_profile=_PROFILE
    )


def _collection_search_folders() -> list[str]:
    """Return all folders in which Ansible looks for collections: our modules may use other collections."""
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    try:
        paths = AnsibleCollectionConfig.collection_paths
    except NotImplementedError:  # no playbook runs here
        return []
    return [str(path).removesuffix("/ansible_collections") for path in paths]


class InPlaceAction(ActionBase):
    """Base of actions that run the module of their task, in place where that is possible.

    PATHS: arguments that are paths of the user, or lists or dictionaries of them. PROGRESS: whether the module has an
    option progress_file.
    """

    PATHS: ClassVar[tuple[str, ...]] = ()
    PROGRESS: ClassVar[bool] = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that the module gets, with absolute paths. May raise SeatrialError."""
        return {
            name: setting_values.absolute_paths(value) if name in self.PATHS else value
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
        module = self._task.resolved_action or self._task.action
        if module not in self._templar.template(task_vars[DEFERRED]) or arguments.get("state", "present") != "present":
            return {}
        call = {"module": module, "arguments": arguments, "progress": self.PROGRESS}
        return {"changed": False, "deferred": call, "_ansible_no_log": True}

    def _replace_unusable_temp_folder(self, task_vars: dict[str, Any]) -> None:
        """Let modules on this machine use Ansible's own temporary folder if they can't use the configured one."""
        if "ansible_remote_tmp" not in task_vars and action_base.configured_remote_tmp(self)[1]:
            self._connection._shell.set_option("remote_tmp", constants.DEFAULT_LOCAL_TMP)

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module with these arguments and return its result.

        Where meta/runtime.yml routes a module to an action of another name, ``resolved_action`` is the module.
        """
        name = self._task.resolved_action or self._task.action
        result: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=task_vars, wrap_async=bool(self._task.async_val)
        )
        return result

    def _configure_module(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        folder = collections_parent_folder()
        if folder is not None and module_name.startswith("perfscale.seatrial.") and self._is_local(task_vars):
            path = folder / "ansible_collections" / "perfscale" / "seatrial" / "plugins" / "modules"
            try:
                return module_program(module_name, module_args, folder), str(path / f"{module_name.split('.')[2]}.py")
            except (ImportError, TypeError):
                pass  # an unknown version of Ansible
        return super()._configure_module(module_name, module_args, task_vars)

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
            show_appended_lines(path, lambda line: Display().display(line, stderr=True)),
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
        end_group()
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
            end_group()
            return
        for line in tail.lines():
            show(line)
    for line in tail.lines():
        show(line)


def end_group() -> None:
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
