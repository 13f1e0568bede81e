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


def test_tests_and_paths_are_chosen_by_name():
    assert sanity.selected([]) == ([], sanity.PROGRAMS)
    words = ["pylint", "pep8", "plugins/modules/"]
    assert sanity.selected(["--test", *words, "--programs", "/p/bin"]) == (words, sanity.Path("/p/bin"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "--test TEST"),
        (["--tset", "pylint"], 2, "unrecognized arguments: --tset"),
        (["pylint", "plugins/module/"], 2, "there is no plugins/module/ in the clone"),
    ],
)
def test_help_and_wrong_arguments_run_nothing(monkeypatch, capsys, words, code, said):
    monkeypatch.setattr(sanity, "run", lambda *_: pytest.fail("tests were run"))
    with pytest.raises(SystemExit) as ended:
        sanity.main(words)
    shown = capsys.readouterr()
    assert ended.value.code == code and said in shown.out + shown.err
