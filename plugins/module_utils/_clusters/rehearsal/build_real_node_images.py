# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images for real nodes: made on this machine, because a rehearsal has no registry, and kept in the cache."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from . import program_download, unpack_packages
from .cached_and_user_programs import verify_cached_checksums
from .component_spec import ImageSpec, RehearsalComponent
from .instance_dir import hold_file_lock, replace_folder_when_complete

#: Names of images begin with it. It is the name of no registry, so nothing ever tries to pull them.
PREFIX = "localhost/seatrial/"
#: In the folder of an image: its archive without the layer, the file tree, and what is known about them.
ARCHIVE, TREE, ENTRY = "image.tar", "tree", "image.json"
_KIND = "application/vnd.oci.image"
#: Changes whenever the code below makes other images of the same settings.
RECIPE = 2


def image_reference_for_pods(image: ImageSpec) -> str:
    """Return the name by which pods use an image."""
    return f"{PREFIX}{image.name}:{image.tag}"


def image_cache_folder(image: ImageSpec, programs: Mapping[str, Path], cache: Path) -> Path:
    """Return the folder of an image in the cache, which need not exist. Its name has a hash of the recipe."""
    recipe: list[Any] = [
        RECIPE,
        image_reference_for_pods(image),
        image.debian,
        *unpack_packages.UNUSED,
        *program_download.go_os_and_architecture(),
    ]
    files = [_files.sha256_of(image.folder / name) for name in (image.requirements, image.setup) if name]
    if image.packages or files:
        recipe += [image.packages, image.without, image.python, files]
    if image.program:
        recipe.append(_files.sha256_of(programs[image.program]))
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
    return cache / "rehearsal" / f"image-{image.name}-{key}"


def describe_missing_images(components: list[RehearsalComponent], cache: Path) -> list[str]:
    """Return lines on the time and space that the images take that are not in the cache."""
    wanted = [image for part in components for image in part.images if image.debian]
    lacking = [image for image in wanted if _read_cached_image_record(image_cache_folder(image, {}, cache)) is None]
    return [
        f"making image {image_reference_for_pods(image)} of Debian packages, once: up to {image.minutes:.0f} min and"
        f" {image.disk_gib:.1f} GiB"
        for image in lacking
    ]


def cached_debian_image_archives(components: list[RehearsalComponent], cache: Path) -> dict[str, Path]:
    """Return the archives of the images of Debian packages that are in the cache, by name."""
    wanted = {
        image.name: image_cache_folder(image, {}, cache) for part in components for image in part.images if image.debian
    }
    return {name: folder / ARCHIVE for name, folder in wanted.items() if _read_cached_image_record(folder) is not None}


def build_missing_images(
    components: list[RehearsalComponent], programs: Mapping[str, Path], cache: Path, say: Say
) -> tuple[dict[str, Path], bool]:
    """Return the archives of all images, and whether any was made. Raises ProcessError."""
    archive_by_name, made = {}, False
    for line in describe_missing_images(components, cache):
        say(line)
    for image in (image for part in components for image in part.images):
        folder = image_cache_folder(image, programs, cache)
        if _read_cached_image_record(folder) is None:
            _build_image_folder(image, programs, folder, say)
            made = True
        archive_by_name[image.name] = folder / ARCHIVE
    return archive_by_name, made


def verify_node_image_checksums(components: list[RehearsalComponent], archives: Mapping[str, Path]) -> None:
    """Verify the checksums of images, and that no file of their trees was changed. Raises OwnershipError."""
    wanted = [archives[image.name] for component in components for image in component.images]
    verify_cached_checksums(
        {archive: str((_read_cached_image_record(archive.parent) or {}).get("sha256")) for archive in wanted}
    )
    for folder in (archive.parent for archive in wanted):
        if tree_metadata_checksum(folder / TREE) != (_read_cached_image_record(folder) or {}).get("tree"):
            raise OwnershipError(
                f"{folder / TREE} was changed since it was created: it is not used."
                f" Remove {folder} to have it made again"
            )


def tree_metadata_checksum(tree: Path) -> str:
    """Return a checksum of the names, kinds, sizes, permissions, targets and times of all files below ``tree``.

    A copy that keeps times (cp -a) has the same one. The contents are not read: it is computed at every start.
    """
    lines, start = [], len(str(tree)) + 1
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            state = os.lstat(path)
            plain = stat.S_ISREG(state.st_mode)
            target = os.readlink(path) if stat.S_ISLNK(state.st_mode) else ""
            size = state.st_size if plain else 0
            lines.append(f"{path[start:]} {state.st_mode:o} {size} {int(state.st_mtime)} {target}")
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _read_cached_image_record(folder: Path) -> dict[str, Any] | None:
    try:
        entry = _files.read_json(folder / ENTRY)
    except DataError:
        return None
    complete = (folder / ARCHIVE).is_file() and (folder / TREE).is_dir() and entry.get("sha256")
    return dict(entry) if complete else None


def _build_image_folder(image: ImageSpec, programs: Mapping[str, Path], target: Path, say: Say) -> None:
    """Create the folder of an image: filled under another name, renamed when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_file_lock(
        target.parent / f".{target.name}.lock", 2 * unpack_packages.IMAGE_TIMEOUT, f"image {image.name}"
    ):
        if _read_cached_image_record(target) is not None:
            return
        began = time.monotonic()
        with replace_folder_when_complete(target) as fresh:
            _check_room(image, target.parent)
            layer, about = (
                fresh / "layer.tar",
                {"image": image_reference_for_pods(image), "made": format_utc_timestamp()},
            )
            if image.program:
                _one_file(layer, programs[image.program], image.program)
            else:
                about["packages"] = unpack_packages.write_image_tree_archive(image, layer, fresh, say)
            about["layer"] = write_archive(
                image_reference_for_pods(image), layer, fresh / ARCHIVE, _image_default_command(image)
            )
            _unpack_layer_tree(layer, fresh / TREE)
            layer.unlink()
            about["sha256"] = _files.sha256_of(fresh / ARCHIVE)
            about["tree"] = tree_metadata_checksum(fresh / TREE)
            about["seconds"] = f"{time.monotonic() - began:.1f}"
            _files.write_json(fresh / ENTRY, about)
    say(f"image {image_reference_for_pods(image)} made in {time.monotonic() - began:.0f} s")


def _check_room(image: ImageSpec, folder: Path) -> None:
    free = shutil.disk_usage(folder).free / 2**30
    if free < image.disk_gib:
        raise ProcessError(
            f"making image {image.name} takes up to {image.disk_gib:.1f} GiB, {free:.1f} GiB are free at {folder}."
            " Free some, or set rehearsal_cache_dir to a larger disk"
        )


def _one_file(layer: Path, program: Path, name: str) -> None:
    with tarfile.open(layer, "w") as archive:
        member = archive.gettarinfo(program, name)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime, member.mode = 0, 0o755
        with open(program, "rb") as stream:
            archive.addfile(member, stream)


def _unpack_layer_tree(layer: Path, tree: Path) -> None:
    """Make the file tree that every instance shares. Its folders must not be writable for others."""
    tree.mkdir(mode=0o755)
    with tarfile.open(layer) as archive:
        # Made by us a moment ago; its absolute links are those of a Debian system.
        archive.extraction_filter = lambda member, _path: member
        archive.extractall(tree, numeric_owner=True)


def write_archive(name: str, layer: Path, target: Path, command: list[str]) -> str:
    """Write an archive of the OCI image layout for an image of one uncompressed layer; return the digest of the layer.

    The archive does not contain the layer: nodes use its file tree.
    """
    system, processor = program_download.go_os_and_architecture()
    digest = f"sha256:{_files.sha256_of(layer)}"
    blob = {"mediaType": f"{_KIND}.layer.v1.tar", "digest": digest, "size": layer.stat().st_size}
    config, manifest = _oci_config_and_manifest(digest, blob, command)
    entry = _oci_content_descriptor(f"{_KIND}.manifest.v1+json", manifest)
    entry["platform"] = {"architecture": processor, "os": system}
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = _encode_json({"schemaVersion": 2, "mediaType": f"{_KIND}.index.v1+json", "manifests": [entry]})
    with tarfile.open(target, "w") as archive:
        _add_file_to_tar(archive, "oci-layout", _encode_json({"imageLayoutVersion": "1.0.0"}))
        _add_file_to_tar(archive, "index.json", index)
        for content in (config, manifest):
            _add_file_to_tar(archive, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
    return digest


def compressed_image_config_manifest(image: ImageSpec, diff_id: str, blob: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return configuration and manifest of an image whose only layer is compressed.

    diff_id: digest of the layer before its compression. blob: digest and size after it.
    """
    return _oci_config_and_manifest(
        diff_id, {"mediaType": f"{_KIND}.layer.v1.tar+gzip", **blob}, _image_default_command(image)
    )


def _image_default_command(image: ImageSpec) -> list[str]:
    return [f"/{image.program}"] if image.program else ["/bin/bash"]


def _oci_config_and_manifest(diff_id: str, blob: Mapping[str, Any], command: list[str]) -> tuple[bytes, bytes]:
    system, processor = program_download.go_os_and_architecture()
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = _encode_json(
        {
            "architecture": processor,
            "os": system,
            "config": {"Env": [path], "Cmd": command},
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        }
    )
    manifest = _encode_json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_KIND}.manifest.v1+json",
            "config": _oci_content_descriptor(f"{_KIND}.config.v1+json", config),
            "layers": [blob],
        }
    )
    return config, manifest


def _encode_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _oci_content_descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _add_file_to_tar(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
