"""The stand-in for ansible-test's pip bootstrap."""

from __future__ import annotations

import re
import subprocess
from types import SimpleNamespace

import pytest
import sanity


def test_the_pip_that_ansible_test_wants_is_found():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", sanity.pip_version())


def test_the_stand_in_lies_where_ansible_test_looks_and_names_its_wheel(tmp_path, monkeypatch):
    def download(command, **_):
        folder = command[command.index("-d") + 1]
        (tmp_path / "asked").write_text(" ".join(command))
        (sanity.Path(folder) / f"pip-{sanity.pip_version()}-py3-none-any.whl").touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", download)
    sanity.bootstrap(tmp_path)
    version = sanity.pip_version()
    script = tmp_path / ".ansible" / "test" / "cache" / f"get_pip_{version.replace('.', '_')}.py"
    compile(script.read_text(), str(script), "exec")
    assert f"pip-{version}-py3-none-any.whl" in script.read_text() and f"pip=={version}" in script.read_text()
    (tmp_path / "asked").unlink()
    sanity.bootstrap(tmp_path)
    assert not (tmp_path / "asked").exists(), "a script that is there is left alone"


def test_a_registry_out_of_reach_is_one_clear_error(tmp_path, monkeypatch):
    answer = SimpleNamespace(returncode=1, stdout="", stderr="ERROR: No matching distribution found")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(SystemExit, match=r"can't be fetched: .*No matching distribution"):
        sanity.bootstrap(tmp_path)
