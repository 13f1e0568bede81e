"""The folder of a registry: what a node pulls has the digests that its manifest names, and unpacks to the file tree."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    build_real_node_images,
    component_spec,
    write_registry_images,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_spec import (
    ImageSpec,
    RehearsalComponent,
)

HOLD = ImageSpec("hold", program="hold")
STORE = "registry/docker/registry/v2"


def quiet(_line: str) -> None:
    """Discard a message."""


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, Path]:
    program = tmp_path / "my-hold"
    program.write_bytes(b"program")
    return build_real_node_images.build_missing_images(
        [part("node", HOLD)], {"hold": program}, tmp_path / "cache", quiet
    )[0]


def part(name: str, *images: ImageSpec, store: str = "") -> RehearsalComponent:
    build = component_spec.GoBuild("m", {name: "."})
    return RehearsalComponent(name, Path(), "a test", "1.0", build, images=list(images), image_store=store)


PARTS = [part("node", HOLD), part("registry", store="registry")]


def blob(root: Path, digest: str) -> bytes:
    name = digest.removeprefix("sha256:")
    content = (root / "blobs" / "sha256" / name[:2] / name / "data").read_bytes()
    assert hashlib.sha256(content).hexdigest() == name
    return content


def pull(root: Path, name: str, tag: str) -> tuple[dict[str, Any], bytes]:
    """Return configuration and layer of an image, as a registry finds them."""
    repository = root / "repositories" / name
    digest = (repository / "_manifests" / "tags" / tag / "current" / "link").read_text()
    revisions = repository / "_manifests" / "revisions" / "sha256"
    assert (revisions / digest.removeprefix("sha256:") / "link").read_text() == digest
    manifest = json.loads(blob(root, digest))
    for one in (manifest["config"], *manifest["layers"]):
        assert (repository / "_layers" / "sha256" / one["digest"][7:] / "link").read_text() == one["digest"]
        assert len(blob(root, one["digest"])) == one["size"]
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    return json.loads(blob(root, manifest["config"]["digest"])), gzip.decompress(blob(root, layer["digest"]))


def test_an_image_in_the_registry_is_complete(tmp_path: Path, archives: dict[str, Path]) -> None:
    assert write_registry_images.create_missing_compressed_layers(PARTS, archives, quiet)
    for _again in range(2):
        write_registry_images.write_registry_folders(PARTS, archives, tmp_path / "data")
    config, layer = pull(tmp_path / "data" / STORE, "seatrial/hold", "1")
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["Cmd"] == ["/hold"]
    (tmp_path / "layer.tar").write_bytes(layer)
    with tarfile.open(tmp_path / "layer.tar") as archive:
        assert [(one.name, one.mode, one.uname) for one in archive] == [("hold", 0o755, "")]
    # All instances share the layer in the cache.
    assert [one for one in (tmp_path / "data").rglob("data") if one.is_symlink()]
    build_real_node_images.verify_node_image_checksums(PARTS, archives)


def test_a_layer_is_compressed_once_and_only_for_a_registry(tmp_path: Path, archives: dict[str, Path]) -> None:
    folder = archives["hold"].parent
    assert (
        not write_registry_images.create_missing_compressed_layers(PARTS[:1], archives, quiet)
        and not (folder / write_registry_images.LAYER).exists()
    )
    write_registry_images.write_registry_folders(PARTS[:1], archives, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert write_registry_images.create_missing_compressed_layers(PARTS, archives, quiet)
    assert not write_registry_images.create_missing_compressed_layers(PARTS, archives, quiet)


def test_half_a_layer_is_made_again(archives: dict[str, Path]) -> None:
    write_registry_images.create_missing_compressed_layers(PARTS, archives, quiet)
    folder = archives["hold"].parent
    with (folder / write_registry_images.LAYER).open("r+b") as stream:
        stream.truncate(10)
    left = folder / f".{write_registry_images.LAYER}.new-killed"
    left.write_text("half")
    assert write_registry_images.create_missing_compressed_layers(PARTS, archives, quiet) and not left.exists()
    assert hashlib.sha256((folder / write_registry_images.LAYER).read_bytes()).hexdigest() == (
        json.loads((folder / write_registry_images.ABOUT).read_text())["digest"].removeprefix("sha256:")
    )


def test_time_and_space_are_announced_for_images_of_packages(tmp_path: Path) -> None:
    base = part("node", ImageSpec("base", debian="trixie", minutes=2, disk_gib=0.4))
    (line,) = write_registry_images.describe_missing_layers([base, PARTS[1]], {})
    assert line == "compressing image localhost/seatrial/base:1 for the registry, once: up to 2 min and 0.1 GiB"
    assert write_registry_images.describe_missing_layers([base], {}) == []
    there = {"base": tmp_path / "base" / build_real_node_images.ARCHIVE}
    there["base"].parent.mkdir()
    assert write_registry_images.describe_missing_layers([base, PARTS[1]], there) == [line]
    shutil.rmtree(tmp_path / "base")
