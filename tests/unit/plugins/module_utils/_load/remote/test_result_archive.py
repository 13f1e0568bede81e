"""The archive of a load's files: what comes out is what went in, or nothing."""

from __future__ import annotations

import gzip
import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import result_upload
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OUTCOME = {"ok": True, "result": {"msg": "done"}}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=300), max_size=4))
def test_files_of_any_content_come_back(tmp_path_factory, contents):
    folder, target = tmp_path_factory.mktemp("in"), tmp_path_factory.mktemp("out")
    files = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.jsonl"
        path.write_bytes(content)
        files.append(("point", path))
    result_upload.pack_result_files(files, OUTCOME, folder / "archive")
    assert result_upload.unpack_result_files(folder / "archive", lambda _kind, name: target / name) == OUTCOME
    assert sorted(one.name for one in target.iterdir()) == [path.name for _kind, path in files]
    for _kind, path in files:
        assert (target / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def packed(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text(f"new {name}\n" * 100)
        (tmp_path / name).write_text("old")
    files = [("point", tmp_path / "in" / "a"), ("step", tmp_path / "in" / "b")]
    result_upload.pack_result_files(files, OUTCOME, tmp_path / "in" / "archive")
    return tmp_path / "in" / "archive"


def rewritten(archive, change):
    """Replace the manifest or the content of an archive, which is then a valid gzip stream again."""
    with gzip.open(archive, "rb") as stream:
        manifest, content = json.loads(stream.readline()), stream.read()
    manifest, content = change(manifest, content)
    archive.write_bytes(gzip.compress(json.dumps(manifest).encode() + b"\n" + content))


def with_size(manifest, size):
    manifest["files"][1]["size"] = size
    return manifest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda manifest, content: (manifest, content[:-1]), "b ends 1 bytes early"),
        (lambda manifest, content: (manifest, content + b"x"), "longer than its manifest says"),
        (lambda manifest, content: (manifest, content[:-1] + b"x"), "the checksum of b differs"),
        (
            lambda manifest, content: ({**manifest, "x": "y" * (1 << 20)}, content),
            "its manifest has more than 1048576 b",
        ),
        (lambda manifest, content: (with_size(manifest, -1), content), "b has -1 bytes"),
        (lambda manifest, content: (with_size(manifest, 1 << 60), content), "b: it unpacks to 1,099,511,627,776 MiB"),
        (lambda manifest, content: ({"files": manifest["files"]}, content), "outcome"),
        (lambda manifest, content: ({"outcome": {}}, content), "files"),
    ],
)
def test_a_damaged_archive_replaces_no_file(packed, tmp_path, change, words):
    rewritten(packed, change)
    with pytest.raises(DataError, match=words):
        result_upload.unpack_result_files(packed, lambda _kind, name: tmp_path / name)
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["old", "old"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b", "in"]


def test_a_truncated_archive_is_damaged(packed, tmp_path):
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(DataError, match="is damaged"):
        result_upload.unpack_result_files(packed, lambda _kind, name: tmp_path / name)


def test_files_that_are_not_needed_are_verified_and_left_out(packed, tmp_path):
    result_upload.unpack_result_files(packed, lambda kind, name: tmp_path / name if kind == "step" else None)
    assert (tmp_path / "a").read_text() == "old" and (tmp_path / "b").read_text().startswith("new")
    rewritten(packed, lambda manifest, content: (manifest, b"x" + content[1:]))
    with pytest.raises(DataError, match="the checksum of a differs"):
        result_upload.unpack_result_files(packed, lambda kind, name: tmp_path / name if kind == "step" else None)


def test_names_cannot_lead_out_of_the_folder(packed, tmp_path):
    def change(manifest, content):
        manifest["files"][0]["name"] = "../../evil"
        return manifest, content

    rewritten(packed, change)
    seen = []
    result_upload.unpack_result_files(packed, lambda _kind, name: seen.append(name))
    assert seen == ["evil", "b"]
