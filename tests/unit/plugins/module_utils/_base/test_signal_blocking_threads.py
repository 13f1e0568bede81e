"""Signals go to the main thread: no thread of ours takes them, no program that a thread starts is deaf to them."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import go_toolchain
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import requested_credentials
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import module_actions
from processes import blocked

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
#: What starts threads, in the standard library.
STARTERS = {
    "Thread",
    "Timer",
    "ThreadPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPool",
    "start_new_thread",
    "to_thread",
    "run_in_executor",
    "ThreadingHTTPServer",
    "ThreadingMixIn",
    "Pool",
    "Process",
}
LIBRARIES = {"threading", "concurrent", "multiprocessing", "_thread", "asyncio", "socketserver", "http"}
ENDING = set(signals.ENDING)


def starts_of(tree: ast.Module) -> list[str]:
    """What a file takes from the standard library that starts threads."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES:
            found += [f"{node.module}.{one.name}" for one in node.names if one.name in STARTERS]
        elif isinstance(node, ast.Attribute) and node.attr in STARTERS and isinstance(node.value, ast.Name):
            found += [f"{node.value.id}.{node.attr}"] if node.value.id in LIBRARIES else []
    return found


def test_every_thread_is_started_by_the_one_helper() -> None:
    found = {
        str(path.relative_to(PLUGINS)): starts
        for path in PLUGINS.rglob("*.py")
        if (starts := starts_of(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert set(found) == {"module_utils/_base/signals.py"}, found


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nthreading.Thread()",
        "from concurrent.futures import ThreadPoolExecutor",
        "asyncio.to_thread(f)",
    ],
)
def test_the_walk_sees_what_starts_threads(text: str) -> None:
    assert starts_of(ast.parse(text))


def new_threads(start: Callable[[Callable[[], None]], None]) -> list[set[int]]:
    """The masks of the threads that ``start`` starts; what it is given is called while they live."""
    before, seen = set(blocked()), []

    def look() -> None:
        seen.extend(mask for thread, mask in blocked().items() if thread not in before)

    start(look)
    return seen


def by_thread(look: Callable[[], None]) -> None:
    one = signals.SignalBlockingThread(target=look)
    one.start()
    one.join()


def by_pool(look: Callable[[], None]) -> None:
    with signals.ThreadPool(2) as threads:
        threads.submit(look).result()


def by_pool_of_processes(look: Callable[[], None]) -> None:
    with signals.ProcessPool(2) as processes:
        processes.submit(int).result()
        look()


def by_caller(look: Callable[[], None]) -> None:
    with signals.exit_with_parent():
        look()


def by_followed(look: Callable[[], None]) -> None:
    with module_actions.show_appended_lines(None, print):
        look()


@pytest.mark.parametrize("start", [by_thread, by_pool, by_pool_of_processes, by_caller, by_followed])
def test_no_thread_takes_the_signals_that_end_us(start: Callable[[Callable[[], None]], None]) -> None:
    before = blocked()[threading.get_native_id()]
    masks = new_threads(start)
    assert masks and all(mask >= ENDING for mask in masks)
    assert blocked()[threading.get_native_id()] == before


def test_the_threads_that_read_from_a_build_take_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "go"
    program.write_text("#!/bin/sh\nexec sleep 0.3\n")
    program.chmod(0o755)
    monkeypatch.setattr(go_toolchain, "PROGRESS_INTERVAL", 0.1)
    masks = new_threads(
        lambda look: go_toolchain.run_go_command(
            go_toolchain.Toolchain(str(program), (1,), {}), [], tmp_path, lambda _: look(), "x", 9
        )
    )
    assert len(masks) >= 2 and all(mask >= ENDING for mask in masks)


def own_mask() -> set[int]:
    return blocked()[os.getpid()]


def test_processes_of_a_pool_can_be_ended() -> None:
    with signals.ProcessPool(2) as processes:
        assert not ENDING & processes.submit(own_mask).result()


def test_a_program_that_a_thread_asks_for_credentials_can_be_ended(tmp_path: Path) -> None:
    program = tmp_path / "login"
    program.write_text(
        "#!/bin/sh\n"
        "mask=$(sed -n 's/^SigBlk:[[:space:]]*//p' /proc/self/status)\n"
        f"version={requested_credentials.VERSIONS[0]}\n"
        """echo '{"apiVersion": "'$version'", "status": {"token": "'$mask'"}}'\n"""
    )
    program.chmod(0o755)
    entry = {"apiVersion": requested_credentials.VERSIONS[0], "command": str(program), "interactiveMode": "Never"}
    with signals.ThreadPool(1) as threads:
        given = threads.submit(
            requested_credentials.exec_plugin_reader(entry, {}, tmp_path / "kubeconfig", "here")
        ).result()
    assert given.authorization == f"Bearer {0:016x}"


def test_a_signal_that_came_while_a_thread_was_started_is_not_lost() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: got.append(number))
    try:
        with signals.signals_blocked():
            signal.raise_signal(signal.SIGTERM)
            assert not got
        assert got == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
