# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of real nodes in the folder of a registry, from which a node pulls them.

The cache has the compressed layer of each image. The folder of an instance has links to them, in the layout of the
CNCF distribution registry.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from . import build_real_node_images, unpack_packages
from .component_spec import ImageSpec, RehearsalComponent
from .instance_dir import hold_file_lock

#: In the folder of an image in the cache: its compressed layer, and digests and size of it.
LAYER, ABOUT = "layer.tar.gz", "layer.json"
#: Compression takes most of the time; the fastest level makes a layer 15 % larger than the usual one.
LEVEL = 1


def has_registry_component(components: list[RehearsalComponent]) -> bool:
    """Return whether one of the components is a registry."""
    return any(component.image_store for component in components)


def describe_missing_layers(components: list[RehearsalComponent], archives: Mapping[str, Path]) -> list[str]:
    """Return a line for each image whose layer is not in the cache. archives: of the images that are there."""
    if not has_registry_component(components):
        return []
    images = [image for component in components for image in component.images if image.debian]
    lacking = [
        image
        for image in images
        if image.name not in archives or _read_compressed_layer_record(archives[image.name].parent) is None
    ]
    return [
        f"compressing image {build_real_node_images.image_reference_for_pods(image)} for the registry, once: up to"
        f" {image.minutes:.0f} min and"
        f" {image.disk_gib / 4:.1f} GiB"
        for image in lacking
    ]


def create_missing_compressed_layers(
    components: list[RehearsalComponent], archives: Mapping[str, Path], say: Say
) -> bool:
    """Make the compressed layers of all images that the cache lacks, if there is a registry; return whether any was."""
    made = False
    for line in describe_missing_layers(components, archives):
        say(line)
    for image in (image for part in components for image in part.images) if has_registry_component(components) else ():
        folder = archives[image.name].parent
        if _read_compressed_layer_record(folder) is None:
            began = time.monotonic()
            _create_compressed_layer(folder)
            reference = build_real_node_images.image_reference_for_pods(image)
            say(f"image {reference} compressed in {time.monotonic() - began:.0f} s")
            made = True
    return made


def write_registry_folders(components: list[RehearsalComponent], archives: Mapping[str, Path], data: Path) -> None:
    """Write the folders of all registries of an instance, whose data are in ``data``.

    Call after create_missing_compressed_layers().
    """
    for store in (component.image_store for component in components if component.image_store):
        for image in (image for part in components for image in part.images):
            _add_image_to_registry(image, archives[image.name].parent, data / store / "docker" / "registry" / "v2")


def _read_compressed_layer_record(folder: Path) -> dict[str, Any] | None:
    """Return what is known about the compressed layer of an image; None if there is none, or half of one."""
    try:
        about = dict(files.read_json(folder / ABOUT))
        return about if (folder / LAYER).stat().st_size == about["size"] else None
    except (DataError, OSError, KeyError):
        return None


class _ChecksummingWriter:
    """A file that is written and its digest."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.sum, self.size = stream, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        self.size += len(data)
        self.stream.write(data)
        return len(data)

    def flush(self) -> None:
        """Required of a file by GzipFile."""

    @property
    def digest(self) -> str:
        return f"sha256:{self.sum.hexdigest()}"


def _create_compressed_layer(folder: Path) -> None:
    """Write the compressed layer of an image, of its file tree."""
    with hold_file_lock(
        folder.parent / f".{folder.name}.lock", 2 * unpack_packages.IMAGE_TIMEOUT, f"the layer of {folder.name}"
    ):
        if _read_compressed_layer_record(folder) is not None:
            return
        for left in folder.glob(f".{LAYER}.new-*"):
            left.unlink()
        handle, name = tempfile.mkstemp(prefix=f".{LAYER}.new-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                plain, packed = _write_layer(folder / build_real_node_images.TREE, stream)
            os.chmod(name, 0o644)
            os.replace(name, folder / LAYER)
        except BaseException:
            os.unlink(name)
            raise
        files.write_json(
            folder / ABOUT, {"digest": packed.digest, "size": packed.size, "diff_id": plain.digest, "plain": plain.size}
        )


def _write_layer(tree: Path, stream: IO[bytes]) -> tuple[_ChecksummingWriter, _ChecksummingWriter]:
    """Write a file tree as a compressed layer; return what was written before and after the compression."""
    packed: Any = _ChecksummingWriter(stream)
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=LEVEL, mtime=0) as zipped:
        plain: Any = _ChecksummingWriter(zipped)
        with tarfile.open(fileobj=plain, mode="w|") as archive:
            for name in sorted(os.listdir(tree)):
                archive.add(tree / name, arcname=name, filter=_without_names)
    return plain, packed


def _without_names(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Users have the numbers of the image, and the names of this machine are not its names."""
    member.uname = member.gname = ""
    return member


def _add_image_to_registry(image: ImageSpec, folder: Path, root: Path) -> None:
    """Add an image to the folder of a registry."""
    about = _read_compressed_layer_record(folder)
    if about is None:
        raise DataError(f"{folder / LAYER} was removed meanwhile: run again")
    config, manifest = build_real_node_images.compressed_image_config_manifest(
        image, about["diff_id"], {"digest": about["digest"], "size": about["size"]}
    )
    name, _colon, tag = (
        build_real_node_images.image_reference_for_pods(image).removeprefix("localhost/").rpartition(":")
    )
    repository, blobs = root / "repositories" / name, root / "blobs" / "sha256"
    layer = about["digest"].removeprefix("sha256:")
    _update_symlink(blobs / layer[:2] / layer / "data", folder / LAYER)
    digests = [layer]
    for content in (config, manifest):
        digest = hashlib.sha256(content).hexdigest()
        files.write_bytes_if_changed(blobs / digest[:2] / digest / "data", content)
        digests.append(digest)
    for digest in digests[:2]:
        files.write_bytes_if_changed(repository / "_layers" / "sha256" / digest / "link", f"sha256:{digest}".encode())
    manifests, last = repository / "_manifests", f"sha256:{digests[-1]}".encode()
    files.write_bytes_if_changed(manifests / "revisions" / "sha256" / digests[-1] / "link", last)
    files.write_bytes_if_changed(manifests / "tags" / tag / "index" / "sha256" / digests[-1] / "link", last)
    files.write_bytes_if_changed(manifests / "tags" / tag / "current" / "link", last)


def _update_symlink(link: Path, target: Path) -> None:
    if not (link.is_symlink() and os.readlink(link) == str(target)):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
