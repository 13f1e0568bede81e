"""Images of real nodes: archives that any container runtime reads, made once, and never used when they were changed."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    build_real_node_images,
    component_spec,
    unpack_packages,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_spec import (
    ImageSpec,
    RehearsalComponent,
)


def quiet(_line: str) -> None:
    """Discard a message."""


def component(folder: Path, *images: ImageSpec) -> RehearsalComponent:
    return RehearsalComponent(
        "node", folder, "a test", "1.0", component_spec.GoBuild("m", {"node": "."}), images=list(images)
    )


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, Path]:
    path = tmp_path / "somewhere" / "my-hold"
    path.parent.mkdir()
    path.write_bytes(b"program")
    return {"hold": path}


HOLD = ImageSpec("hold", program="hold")


def blobs(archive: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the index of an archive and its blobs by digest, whose digests are verified."""
    with tarfile.open(archive) as tar:
        content = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    found = {name.rpartition("/")[2]: text for name, text in content.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(text).hexdigest() == name for name, text in found.items())
    assert json.loads(content["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    return json.loads(content["index.json"]), found


def test_an_image_of_one_program_is_complete(tmp_path: Path, programs: dict[str, Path]) -> None:
    found, made = build_real_node_images.build_missing_images(
        [component(tmp_path, HOLD)], programs, tmp_path / "cache", quiet
    )
    assert made
    index, content = blobs(found["hold"])
    (entry,) = index["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/seatrial/hold:1"

    def blob(reference: dict[str, Any]) -> bytes:
        text = content[reference["digest"].removeprefix("sha256:")]
        assert reference["size"] == len(text)
        return text

    manifest = json.loads(blob(entry))
    config, layer = json.loads(blob(manifest["config"])), manifest["layers"][0]["digest"]
    assert config["rootfs"]["diff_ids"] == [layer] and config["config"]["Cmd"] == ["/hold"]
    folder = found["hold"].parent
    assert json.loads((folder / "image.json").read_text())["layer"] == layer
    # The layer itself is a file tree, which all instances share.
    assert layer.removeprefix("sha256:") not in content
    (program,) = (folder / "tree").iterdir()
    assert (program.name, program.read_bytes(), program.stat().st_mode & 0o7777) == ("hold", b"program", 0o755)


def test_an_image_is_made_once_for_a_program(tmp_path: Path, programs: dict[str, Path]) -> None:
    parts, cache = [component(tmp_path, HOLD)], tmp_path / "cache"
    first, _made = build_real_node_images.build_missing_images(parts, programs, cache, quiet)
    assert build_real_node_images.build_missing_images(parts, programs, cache, quiet) == (first, False)
    programs["hold"].write_bytes(b"another")
    second, made = build_real_node_images.build_missing_images(parts, programs, cache, quiet)
    assert made and first != second


def test_half_an_image_is_made_again(tmp_path: Path, programs: dict[str, Path]) -> None:
    cache = tmp_path / "cache"
    folder = build_real_node_images.image_cache_folder(HOLD, programs, cache)
    left = folder.parent / f".{folder.name}.new-killed"
    for one in (folder, left):
        one.mkdir(parents=True)
        (one / "image.tar").write_text("half")
    found, made = build_real_node_images.build_missing_images([component(tmp_path, HOLD)], programs, cache, quiet)
    assert made and found["hold"].stat().st_size > 100 and not left.exists()


def test_a_changed_image_is_not_used(tmp_path: Path, programs: dict[str, Path]) -> None:
    parts = [component(tmp_path, HOLD)]
    found, _made = build_real_node_images.build_missing_images(parts, programs, tmp_path / "cache", quiet)
    build_real_node_images.verify_node_image_checksums(parts, found)
    found["hold"].write_bytes(b"evil")
    with pytest.raises(OwnershipError, match="was changed since it was created"):
        build_real_node_images.verify_node_image_checksums(parts, found)


@pytest.mark.parametrize("change", ["more", "another", "permissions", "gone"])
def test_a_changed_file_tree_is_not_used(change: str, tmp_path: Path, programs: dict[str, Path]) -> None:
    parts = [component(tmp_path, HOLD)]
    found, _made = build_real_node_images.build_missing_images(parts, programs, tmp_path / "cache", quiet)
    file = found["hold"].parent / "tree" / "hold"
    shutil.copytree(file.parent, tmp_path / "copy", symlinks=True)
    assert build_real_node_images.tree_metadata_checksum(
        tmp_path / "copy"
    ) == build_real_node_images.tree_metadata_checksum(file.parent)
    if change == "more":
        file.with_name("evil").symlink_to("hold")
    elif change == "another":
        file.write_bytes(b"evil")
    elif change == "permissions":
        file.chmod(0o4755)
    else:
        file.unlink()
    with pytest.raises(OwnershipError, match="tree was changed since it was created: it is not used. Remove "):
        build_real_node_images.verify_node_image_checksums(parts, found)


def test_an_image_without_its_tree_is_made_again(tmp_path: Path, programs: dict[str, Path]) -> None:
    parts, cache = [component(tmp_path, HOLD)], tmp_path / "cache"
    found, _made = build_real_node_images.build_missing_images(parts, programs, cache, quiet)
    shutil.rmtree(found["hold"].parent / "tree")
    assert build_real_node_images.build_missing_images(parts, programs, cache, quiet) == (found, True)


def test_what_an_image_takes_is_said_before_it_is_made(tmp_path: Path) -> None:
    base = ImageSpec("base", debian="trixie", tag="trixie", minutes=2, disk_gib=0.5)
    (line,) = build_real_node_images.describe_missing_images([component(tmp_path, base, HOLD)], tmp_path / "cache")
    assert line == "making image localhost/seatrial/base:trixie of Debian packages, once: up to 2 min and 0.5 GiB"


def test_an_image_that_does_not_fit_or_has_no_apt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, cache = ImageSpec("base", debian="trixie"), tmp_path / "cache"
    with pytest.raises(ProcessError, match="image base takes up to 1000000.0 GiB, .* rehearsal_cache_dir"):
        build_real_node_images.build_missing_images(
            [component(tmp_path, dataclasses.replace(base, disk_gib=1e6))], {}, cache, quiet
        )
    monkeypatch.setattr(unpack_packages.shutil, "which", lambda *_words, **_more: None)
    with pytest.raises(ProcessError, match="takes a machine with apt"):
        build_real_node_images.build_missing_images([component(tmp_path, base)], {}, cache, quiet)
    assert list((cache / "rehearsal").iterdir()) == []


def test_another_requirement_or_setup_makes_another_image(tmp_path: Path) -> None:
    for name in ("pins.txt", "setup.py"):
        (tmp_path / name).write_text("one")
    plain = ImageSpec("base", tmp_path, debian="trixie")
    full = dataclasses.replace(plain, packages=["bash"], python="3.13", requirements="pins.txt", setup="setup.py")
    found = [build_real_node_images.image_cache_folder(one, {}, tmp_path) for one in (plain, full)]
    found.append(
        build_real_node_images.image_cache_folder(dataclasses.replace(full, packages=["bash", "dash"]), {}, tmp_path)
    )
    for name in ("pins.txt", "setup.py"):
        (tmp_path / name).write_text("two")
        found.append(build_real_node_images.image_cache_folder(full, {}, tmp_path))
    found.append(
        build_real_node_images.image_cache_folder(dataclasses.replace(full, without=["/usr/games/*"]), {}, tmp_path)
    )
    assert len(set(found)) == 6


def test_a_layer_belongs_to_root_and_has_no_devices(tmp_path: Path) -> None:
    tree, layer = tmp_path / "tree.tar", tmp_path / "layer.tar"
    kinds = {"bin": tarfile.DIRTYPE, "bin/sh": tarfile.REGTYPE, "sh": tarfile.SYMTYPE, "null": tarfile.CHRTYPE}
    with tarfile.open(tree, "w") as archive:
        for name, kind in kinds.items():
            member = tarfile.TarInfo(name)
            member.type, member.uid, member.gid, member.gname, member.mode = kind, 7, 42, "shadow", 0o4755
            member.linkname = "bin/sh" if kind == tarfile.SYMTYPE else ""
            member.size = 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"text") if member.size else None)
    unpack_packages.copy_archive_owned_by_root(tree, layer)
    with tarfile.open(layer) as archive:
        found = {one.name: one for one in archive}
        assert archive.extractfile("bin/sh").read() == b"text"  # type: ignore[union-attr]
    assert list(found) == ["bin", "bin/sh", "sh"] and found["sh"].linkname == "bin/sh"
    assert {(one.uid, one.gid, one.gname, one.mode) for one in found.values()} == {(0, 0, "", 0o755)}
