# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components in another release, or built from a checkout."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_spec,
    component_versions,
    go_build,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.cached_and_user_programs import (
    component_cache_key,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_spec import (
    RehearsalComponent,
)

COMPONENTS = Path(__file__).parents[6] / "roles" / "rehearsal" / "files" / "components"
MODULE = "sigs.k8s.io/kueue"


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def kueue() -> RehearsalComponent:
    return component_spec.load_component(COMPONENTS / "kueue")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "pkg").mkdir(parents=True)
    (folder / "go.mod").write_text(f"module {MODULE}\n")
    (folder / "pkg" / "a.go").write_text("package pkg\n")
    (folder / ".gitignore").write_text("bin/\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    return folder


def built_from(kueue: RehearsalComponent, source: object) -> RehearsalComponent:
    return component_versions.apply_versions(kueue, {}, {"kueue": str(source)})


def test_another_release_lies_beside_the_component_s_own_and_brings_its_definitions(kueue: RehearsalComponent) -> None:
    version = next(iter(kueue.versions))
    other = component_versions.apply_versions(kueue, {"kueue": version}, {})
    assert (other.version, other.release) == (version, f"{MODULE}@v{version}")
    assert [crd.version for crd in other.crds] == [f"v{version}"]
    assert component_cache_key(other) != component_cache_key(kueue)
    assert component_versions.components_in_other_version([kueue, other]) == {"kueue": version}


def test_what_publishers_and_debian_have_is_not_of_a_checkout(tmp_path: Path) -> None:
    for name in ("etcd", "kwok"):
        component = component_spec.load_component(COMPONENTS / name)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "go.mod").write_text(f"module {component.build.module}\n")
        assert component.build.published
        build = component_versions.apply_versions(component, {}, {name: str(folder)}).build
        assert (build.published, build.debian) == (None, {})


@pytest.mark.parametrize("version", ["", "own", "vown"])
def test_the_own_release_is_no_other_version(kueue: RehearsalComponent, version: str) -> None:
    given = version.replace("own", kueue.version)
    assert component_versions.apply_versions(kueue, {"kueue": given}, {"kueue": ""}) == kueue


def test_an_unknown_release_is_refused_with_those_that_work(kueue: RehearsalComponent) -> None:
    with pytest.raises(InputError) as raised:
        component_versions.apply_versions(kueue, {"kueue": "9.9.9"}, {})
    assert raised.value.setting == "rehearsal_versions"
    assert all(version in str(raised.value) for version in (kueue.version, *kueue.versions))


def test_a_version_of_what_the_cluster_lacks_is_refused(kueue: RehearsalComponent) -> None:
    for setting, values in (("rehearsal_versions", ({"kueu": "1"}, {})), ("rehearsal_sources", ({}, {"kueu": "/x"}))):
        with pytest.raises(InputError, match="kueue") as raised:
            component_versions.check_component_names([kueue], *values)
        assert raised.value.setting == setting


def test_an_edited_file_is_another_version_and_a_clean_checkout_is_its_commit(
    kueue: RehearsalComponent, checkout: Path
) -> None:
    clean = built_from(kueue, checkout)
    commit = git(checkout, "rev-parse", "HEAD")
    assert clean.version == f"{kueue.version}+{commit[:10]}"
    assert component_cache_key(built_from(kueue, f"{checkout}@main")) == component_cache_key(clean)

    (checkout / "pkg" / "a.go").write_text("package pkg // changed\n")
    dirty = built_from(kueue, checkout)
    assert f"{commit[:10]}-dirty-" in dirty.version
    assert component_cache_key(dirty) != component_cache_key(clean)

    (checkout / "pkg" / "b.go").write_text("package pkg\n")  # not yet added to Git
    assert component_cache_key(built_from(kueue, checkout)) != component_cache_key(dirty)


def test_each_tag_of_a_release_or_a_checkout_selects_sources_of_the_component() -> None:
    tagged = 0
    for folder in COMPONENTS.iterdir():
        component = component_spec.load_component(folder)
        tags = {*component.checkout_tags, *(tag for release in component.versions.values() for tag in release.tags)}
        constraints = re.findall(
            r"^//go:build (.+)$", "\n".join(map(Path.read_text, folder.glob("*.go"))), re.MULTILINE
        )
        assert {f"!{tag}" for tag in tags} | tags <= set(constraints), folder.name
        tagged += len(tags)
    assert tagged


@pytest.mark.parametrize("by_revision", [False, True])
@pytest.mark.parametrize("version", ["", "0.18.3"])
@pytest.mark.parametrize(
    ("file", "text", "tags"),
    [
        ("reconciler.go", "func WithLabelKeysToCopy(n []string) Option {", ["kueue_0_18"]),
        ("reconciler.go", "func WithLabelKeysToCopy(s sets.Set[string]) Option {", []),
        ("integrationmanager.go", "func NewIntegrationManager() *IntegrationManager {", ["kueue_0_20"]),
    ],
)
def test_a_checkout_is_built_for_the_release_line_whose_functions_it_has(
    kueue: RehearsalComponent, checkout: Path, file: str, text: str, tags: list[str], version: str, by_revision: bool
) -> None:
    folder = checkout / "pkg" / "controller" / "jobframework"
    folder.mkdir(parents=True)
    (folder / file).write_text(f"package jobframework\n\n{text}\n")
    if by_revision:
        git(checkout, "add", ".")
        git(checkout, "commit", "-m", "two")
        (folder / file).write_text("package jobframework\n")
    source = f"{checkout}{'@HEAD' if by_revision else ''}"
    assert component_versions.apply_versions(kueue, {"kueue": version}, {"kueue": source}).build.tags == tags


def test_what_no_build_reads_is_not_another_version(kueue: RehearsalComponent, checkout: Path) -> None:
    before = built_from(kueue, checkout)
    (checkout / "bin").mkdir()
    (checkout / "bin" / "kueue").write_text("ignored")
    (checkout / "pkg" / "a_test.go").write_text("package pkg\n")
    assert built_from(kueue, checkout) == before


def test_a_folder_without_git_is_named_by_its_content(kueue: RehearsalComponent, checkout: Path) -> None:
    with_git = built_from(kueue, checkout)
    (checkout / ".git").rename(checkout.parent / "gone")
    without = built_from(kueue, checkout)
    assert "+content-" in without.version
    assert without.source and with_git.source and without.source.digest == with_git.source.digest


def test_a_folder_that_is_no_checkout_is_refused_before_its_files_are_read(
    kueue: RehearsalComponent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(component_versions, "_hash_file", lambda path: pytest.fail(f"{path} is read"))
    (tmp_path / "large").write_text("of another program")
    with pytest.raises(InputError, match="has no go.mod"):
        built_from(kueue, str(tmp_path))


@pytest.mark.parametrize("revision", ["", "@HEAD"])
def test_the_copy_of_a_checkout_follows_it_and_keeps_what_is_the_same(
    kueue: RehearsalComponent, checkout: Path, tmp_path: Path, revision: str
) -> None:
    place = tmp_path / "place"
    source = built_from(kueue, f"{checkout}{revision}").source
    assert source is not None
    component_versions.copy_checkout(source, place)
    kept = (place / "go.mod").stat().st_mtime_ns

    (checkout / "pkg" / "a.go").rename(checkout / "pkg" / "b.go")
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "two")
    source = built_from(kueue, f"{checkout}{revision}").source
    assert source is not None
    component_versions.copy_checkout(source, place)
    assert sorted(path.name for path in (place / "pkg").iterdir()) == ["b.go"]
    assert (place / "go.mod").stat().st_mtime_ns == kept


def test_a_checkout_that_is_edited_meanwhile_is_not_built(
    kueue: RehearsalComponent, checkout: Path, tmp_path: Path
) -> None:
    source = built_from(kueue, checkout).source
    assert source is not None
    (checkout / "pkg" / "a.go").write_text("package other\n")
    with pytest.raises(InputError, match="again"):
        component_versions.copy_checkout(source, tmp_path / "place")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{}/nowhere", "nowhere"),
        ("{}/nowhere@main", "nowhere"),
        ("{}@nobranch", "nobranch"),
        ("{}@", "revision"),
        ("{}@--help", "revision"),
        ("{}/pkg", "go.mod"),
    ],
)
def test_a_source_that_cannot_be_built_is_refused(
    kueue: RehearsalComponent, checkout: Path, source: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        built_from(kueue, source.format(checkout))
    assert raised.value.setting == "rehearsal_sources"


def test_a_checkout_of_another_module_is_refused(kueue: RehearsalComponent, checkout: Path) -> None:
    (checkout / "go.mod").write_text("module example.com/other\n")
    with pytest.raises(InputError, match=f"example.com/other.*{MODULE}"):
        built_from(kueue, checkout)


def test_a_checkout_with_modules_inside_is_refused(kueue: RehearsalComponent, checkout: Path) -> None:
    (checkout / "staging" / "src").mkdir(parents=True)
    (checkout / "staging" / "src" / "a.go").write_text("package a\n")
    with pytest.raises(InputError, match="staging"):
        built_from(kueue, checkout)


def test_a_component_that_is_not_built_has_no_source(kueue: RehearsalComponent, checkout: Path) -> None:
    with pytest.raises(InputError, match="Go module"):
        built_from(replace(kueue, build=component_spec.GoBuild()), checkout)


def test_a_release_of_kubernetes_has_its_own_staging_modules_stamps_and_hash(tmp_path: Path) -> None:
    own = component_spec.load_component(COMPONENTS / "control-plane")
    for version, release in own.versions.items():
        other = component_versions.apply_versions(own, {"control-plane": version}, {})
        go_build.use_go_mod_of_release(other, tmp_path)
        go_mod, twin = (tmp_path / "go.mod").read_text(), f"v0.{version.removeprefix('1.')}"
        assert f"k8s.io/kubernetes v{version}" in go_mod
        assert {line.split()[-1] for line in go_mod.splitlines() if "=>" in line} == {twin}
        assert (tmp_path / "go.sum").read_text() == f"k8s.io/kubernetes v{version} {release.sum}\n"
        stamps = {key.rpartition(".")[2]: value for key, value in other.build.stamp.items()}
        assert stamps == {"gitVersion": f"v{version}", "gitMajor": "1", "gitMinor": version.split(".")[1]}
        assert component_cache_key(other) != component_cache_key(own)


def test_a_release_that_is_almost_a_known_one_is_refused_with_that_one() -> None:
    own = component_spec.load_component(COMPONENTS / "control-plane")
    version = next(iter(own.versions))
    with pytest.raises(InputError, match=f"did you mean '{version}'"):
        component_versions.apply_versions(own, {"control-plane": f"{version}0"}, {})
