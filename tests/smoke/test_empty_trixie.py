"""The built archive on a Debian trixie that has Python and nothing else of ours: installed and run as README says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trixie
from common import ROOT, seatrial_cache

#: The block of README that installs the archive.
COMMANDS = next(
    block
    for block in re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if "pip install" in block
)


@pytest.mark.long
@pytest.mark.skipif(bool(trixie.unavailable()), reason=trixie.unavailable())
def test_the_archive_runs_the_main_job_on_an_empty_trixie(archive: Path, tmp_path: Path) -> None:
    trixie.create(tmp_path / "log")
    work, home, scratch = (tmp_path / name for name in ("work", "home", "tmp"))
    for one in (work, home, scratch):
        one.mkdir()
    shutil.copy(archive, work)
    programs = seatrial_cache() / "rehearsal"  # a first build is tested elsewhere
    programs.mkdir(parents=True, exist_ok=True)
    binds = [
        *trixie.shared(),
        (work, trixie.INSIDE),
        (scratch, "/tmp"),
        (home, trixie.HOME),
        (programs, f"{trixie.HOME}/.cache/seatrial/rehearsal"),
    ]
    done = subprocess.run(
        trixie.entering(trixie.folder(), binds, ["sh", "-euxc", COMMANDS]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=trixie.environment(PIP_QUIET="1"),
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "verdict   PASS" in done.stdout, done.stdout[-3000:]
    (report,) = (work / "artifacts").glob("fine_tuning-light-*/report/index.html")
    assert report.stat().st_size > 10_000
