"""Modules in a fork: arguments, environment, results, failures and signals."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import module_process
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

HEAD = """from __future__ import annotations
import atexit, json, os, signal, sys
from ansible.module_utils.basic import AnsibleModule
"""


def run(module: str, arguments: dict[str, Any], folder: Path, environment: dict[str, Any] | None = None) -> Any:
    encoded = ansible_core.encode_module_arguments(arguments)
    return module_process.run_forked_module(module, encoded, environment or {}, str(folder))


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a module of this body of main(), and returns its name."""
    package = tmp_path / "forked"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module_process, "MODULES", "forked")

    def write(body: str) -> str:
        (package / "probe.py").write_text(f"{HEAD}\ndef main():\n    {body}\n", encoding="utf-8")
        return "probe"

    return write


def test_a_module_gets_its_arguments_and_returns_its_result(tmp_path: Path) -> None:
    returned = run("runai_files", {"run_dir": str(tmp_path / "näme")}, tmp_path)
    document = json.loads(returned["stdout"])
    assert document["failed"] and "näme" in document["msg"]
    assert returned["rc"] == 1
    assert not returned["stderr"]
    assert "required arguments: run_dir" in json.loads(run("runai_files", {}, tmp_path)["stdout"])["msg"]


def test_a_module_has_the_folder_the_environment_and_the_signals_of_a_new_process(
    write_module: Any, tmp_path: Path
) -> None:
    name = write_module(
        "AnsibleModule({}).exit_json(folder=os.getcwd(), variable=os.environ['SEATRIAL_X'],"
        " group=os.getpgrp(),"
        " handlers=[signal.getsignal(n) in (signal.SIG_DFL, signal.default_int_handler, signal.SIG_IGN)"
        " for n in (2, 15, 1)], blocked=len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    )
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        returned = run(name, {}, tmp_path, {"SEATRIAL_X": 7})
    finally:
        signal.signal(signal.SIGTERM, before)
    document = json.loads(returned["stdout"])
    assert document["folder"] == str(tmp_path)
    assert (document["variable"], document["group"]) == ("7", os.getpgrp())
    assert document["handlers"] == [True, True, True]
    assert document["blocked"] == 0
    assert "SEATRIAL_X" not in os.environ


def test_warnings_and_exit_functions_are_the_modules_own(write_module: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    name = write_module(
        f"atexit.register(open, {str(mark)!r}, 'w'); module = AnsibleModule({{}}); module.warn('beware');"
        " module.exit_json(changed=True)"
    )
    (warning,) = json.loads(run(name, {}, tmp_path)["stdout"])["warnings"]
    assert "beware" in json.dumps(warning)
    assert mark.exists()


def test_an_unexpected_exception_is_a_failure_with_its_message(write_module: Any, tmp_path: Path) -> None:
    returned = run(write_module("raise PermissionError(13, 'no', '/x')"), {}, tmp_path)
    document = json.loads(returned["stdout"])
    assert (returned["rc"], document["failed"]) == (1, True)
    assert document["msg"] == "module probe failed unexpectedly: PermissionError: [Errno 13] no: '/x'"
    assert "Traceback" in document["exception"]


def test_a_killed_module_says_so(write_module: Any, tmp_path: Path) -> None:
    returned = run(write_module("os.kill(os.getpid(), signal.SIGKILL)"), {}, tmp_path)
    assert returned["rc"] == 137
    assert json.loads(returned["stdout"])["msg"] == "module probe was ended by SIGKILL before it had a result"


def test_the_timeout_of_a_task_ends_its_module(write_module: Any, tmp_path: Path) -> None:
    class TimeOverError(Exception):
        """What Ansible raises from its alarm."""

    def on_alarm(_number: int, _frame: Any) -> None:
        raise TimeOverError

    pid_file = tmp_path / "pid"
    name = write_module(f"open({str(pid_file)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)")
    before = signal.signal(signal.SIGUSR1, on_alarm)
    main = threading.get_ident()

    def alarm_when_begun() -> None:
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGUSR1)

    threading.Thread(target=alarm_when_begun).start()
    try:
        with pytest.raises(TimeOverError):
            run(name, {}, tmp_path)
    finally:
        signal.signal(signal.SIGUSR1, before)
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                break
        except ChildProcessError:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the module still runs")
    assert sys.modules.get("forked.probe") is None
