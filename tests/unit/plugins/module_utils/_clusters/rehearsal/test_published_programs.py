"""Programs from their publishers: a server here has their layouts, and everything that goes wrong there."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pin_published
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_selection,
    component_spec,
    go_build,
    program_download,
    provide_component_programs,
)

COMPONENTS = Path(__file__).parents[6] / "roles" / "rehearsal" / "files" / "components"
KIND, PROCESSOR = program_download.go_os_and_architecture()
PROGRAM = b"\x7fELF" + bytes(100_000)

#: Addresses as the publishers of Kubernetes, etcd and KWOK have them, below a server.
KUBERNETES = ("v{version}/bin/{os}/{arch}/{binary}", "")
ETCD = ("etcd/v{version}/{binary}-v{version}-{os}-{arch}.tar.gz", "etcd/v{version}/SHA256SUMS")
KWOK = ("kwok/releases/download/v{version}/{binary}-{os}-{arch}", "api/kwok/releases/tags/v{version}")


@dataclass
class Publisher:
    """A server with files; ``fault`` is what it does instead of sending the program."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    fault: str = ""
    asked: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def publish(self, program: bytes = PROGRAM, checksum: str = "") -> None:
        """Publish program ``tool`` 1.0.0 in all layouts; ``checksum`` instead of the right one."""
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name, content in (("README.md", b"text"), ("tool", program), ("toolctl", b"another")):
                member = tarfile.TarInfo(f"tool-v1.0.0-{KIND}-{PROCESSOR}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        packed = stream.getvalue()
        plain, zipped = (checksum or hashlib.sha256(one).hexdigest() for one in (program, packed))
        name = f"tool-v1.0.0-{KIND}-{PROCESSOR}.tar.gz"
        asset = f"tool-{KIND}-{PROCESSOR}"
        self.files = {
            f"/v1.0.0/bin/{KIND}/{PROCESSOR}/tool": program,
            f"/v1.0.0/bin/{KIND}/{PROCESSOR}/tool.sha256": plain.encode(),
            f"/etcd/v1.0.0/{name}": packed,
            "/etcd/v1.0.0/SHA256SUMS": f"{'0' * 64}  other.tar.gz\n{zipped}  {name}\n".encode(),
            f"/kwok/releases/download/v1.0.0/{asset}": program,
            "/api/kwok/releases/tags/v1.0.0": json.dumps(
                {"assets": [{"name": "x", "digest": None}, {"name": asset, "digest": f"sha256:{plain}"}]}
            ).encode(),
        }


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    world = Publisher()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            world.asked.append(self.path)
            if world.fault == "silent":
                world.ended.wait()
                return
            body = world.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            faulty = world.fault and len(body) > 64 and self.path.rpartition("/")[2].startswith("tool")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:50] if faulty else body)
            if faulty and world.fault == "stalled":
                self.wfile.flush()
                world.ended.wait()

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        world.url = f"http://127.0.0.1:{server.server_address[1]}"
        world.publish()
        yield world
        world.ended.set()
        server.shutdown()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the components that Go would have built; here each program is the text "built"."""
    names: list[str] = []

    def build(component: component_spec.RehearsalComponent, fresh: Path, *_rest: object) -> str:
        names.append(component.name)
        for name in component.build.binaries:
            (fresh / "bin" / name).write_text("built")
        return "built"

    monkeypatch.setattr(go_build, "build_programs_and_crds", build)
    monkeypatch.setattr(go_build, "check_disk_space_for_builds", lambda *_all: None)
    monkeypatch.setattr(program_download, "ANSWER_TIMEOUT", 0.5)
    return names


def make(folder: Path, publisher: Publisher, layout: tuple[str, str] = KUBERNETES, name: str = "tool"):
    """Return a component with program ``tool``, published in this layout."""
    (folder / name).mkdir(parents=True)
    (folder / name / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    published = {key: f"{publisher.url}/{one}" for key, one in zip(("url", "sums"), layout, strict=True) if one}
    document = {
        "about": "a test",
        "version": "1.0.0",
        "build": {"module": "m", "binaries": {"tool": "m"}, "published": published},
        "processes": {name: {"binary": "tool", "after": [], "ready": [{"url": "http://127.0.0.1:1/"}]}},
    }
    (folder / name / "component.yml").write_text(yaml.safe_dump(document))
    return component_spec.load_component(folder / name)


@pytest.mark.parametrize("layout", [KUBERNETES, ETCD, KWOK], ids=["kubernetes", "etcd", "kwok"])
def test_a_program_is_fetched_from_its_publisher_checked_and_kept(tmp_path, publisher, built, layout) -> None:
    tool = make(tmp_path, publisher, layout)
    sources = cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="checked")
    programs, made = provide_component_programs.provide_component_programs([tool], sources, lambda _line: None)
    assert made and not built and programs["tool"].paths["tool"].read_bytes() == PROGRAM
    assert programs["tool"].source == f"fetched from {publisher.url.split('/')[2]}"
    assert [one.name for one in programs["tool"].paths["tool"].parent.iterdir()] == ["tool"]
    asked = len(publisher.asked)
    _again, made = provide_component_programs.provide_component_programs([tool], sources, lambda _line: None)
    assert not made and len(publisher.asked) == asked
    (record,) = json.loads(sources.record.read_text())
    assert record.startswith(publisher.url)


@pytest.mark.parametrize("layout", [KUBERNETES, ETCD, KWOK], ids=["kubernetes", "etcd", "kwok"])
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("wrong sum", "has the checksum .*: nothing was kept"),
        ("no sum", "has no SHA-256 checksum of tool"),
        ("truncated", r"it ended \d+ bytes early"),
        ("stalled", "timed out"),
        ("missing", "404"),
    ],
)
def test_what_is_wrong_at_a_publisher_is_reported_and_the_program_built(
    tmp_path, publisher, built, layout, fault, why
) -> None:
    if fault == "wrong sum":
        publisher.publish(checksum="0" * 64)
    elif fault == "no sum":
        publisher.publish(checksum="moved")
    elif fault == "missing":
        publisher.files = {}
    else:
        publisher.fault = fault
    said: list[str] = []
    tool = make(tmp_path, publisher, layout)
    programs, made = provide_component_programs.provide_component_programs(
        [tool], cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="checked"), said.append
    )
    assert made and built == ["tool"] and programs["tool"].paths["tool"].read_text() == "built"
    (line,) = (one for one in said if one.startswith("tool is not fetched: "))
    assert re.search(why, line), line
    assert any(one.startswith("building tool 1.0.0 with Go, once") for one in said)


def test_a_publisher_that_does_not_answer_is_asked_once_for_all_components(tmp_path, publisher, built) -> None:
    publisher.fault = "silent"
    said: list[str] = []
    tools = [make(tmp_path, publisher, layout, name) for layout, name in ((KUBERNETES, "one"), (ETCD, "two"))]
    provide_component_programs.provide_component_programs(
        tools, cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="checked"), said.append
    )
    assert built == ["one", "two"] and len(publisher.asked) == 1
    assert sum("rehearsal_fetch_published=never skips the attempt" in one for one in said) == 1


def test_a_name_that_is_looked_up_for_ever_is_given_up(tmp_path, publisher, built, monkeypatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_all, **_more: publisher.ended.wait())
    said: list[str] = []
    provide_component_programs.provide_component_programs(
        [make(tmp_path, publisher)],
        cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="checked"),
        said.append,
    )
    assert built == ["tool"] and any("no answer after 1 s" in one for one in said)


def test_a_published_program_that_has_changed_since_its_first_use_is_not_used(tmp_path, publisher, built) -> None:
    tool, sources = (
        make(tmp_path, publisher),
        cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="checked"),
    )
    provide_component_programs.provide_component_programs([tool], sources, lambda _line: None)
    (cached_and_user_programs.component_cache_folder(tool, sources.cache) / "entry.json").unlink()
    publisher.publish(b"another program")
    said: list[str] = []
    provide_component_programs.provide_component_programs([tool], sources, said.append)
    assert built == ["tool"] and any("at its first use here it had" in one for one in said)


def test_one_setting_turns_fetching_off(tmp_path, publisher, built) -> None:
    sources = cached_and_user_programs.ProgramSources(tmp_path / "cache", publishers="never")
    provide_component_programs.provide_component_programs([make(tmp_path, publisher)], sources, lambda _line: None)
    assert built == ["tool"] and publisher.asked == []


def pin(tool: component_spec.RehearsalComponent, publisher: Publisher, program: bytes = PROGRAM) -> None:
    url = f"{publisher.url}/v1.0.0/bin/{KIND}/{PROCESSOR}/tool"
    (tool.folder / program_download.PINS).write_text(f"{hashlib.sha256(program).hexdigest()}  {url}\n")


def test_by_default_only_a_program_whose_checksum_the_component_has_is_fetched(tmp_path, publisher, built) -> None:
    pinned, other = (make(tmp_path, publisher, name=name) for name in ("pinned", "other"))
    pin(pinned, publisher)
    said: list[str] = []
    sources = cached_and_user_programs.ProgramSources(tmp_path / "cache")
    programs, _made = provide_component_programs.provide_component_programs([pinned, other], sources, said.append)
    assert built == ["other"] and programs["pinned"].paths["tool"].read_bytes() == PROGRAM
    assert "rehearsal_fetch_published=checked fetches other from their publishers instead" in said


def test_a_publisher_whose_program_is_not_the_pinned_one_is_reported(tmp_path, publisher, built) -> None:
    tool, said = make(tmp_path, publisher), []
    pin(tool, publisher, b"the program of the review")
    provide_component_programs.provide_component_programs(
        [tool], cached_and_user_programs.ProgramSources(tmp_path / "cache"), said.append
    )
    assert built == ["tool"] and any(
        one.startswith("tool is not fetched: ") and "published.sha256 has" in one for one in said
    )


def test_a_line_of_checksums_that_can_not_be_read_is_refused_with_its_place(tmp_path, publisher) -> None:
    tool = make(tmp_path, publisher)
    (tool.folder / program_download.PINS).write_text("abc  https://example.com/tool\n")
    with pytest.raises(InputError, match=r"published.sha256:1: 'abc  https://example.com/tool' is not"):
        program_download.read_recorded_publisher_checksums(tool)


def test_the_tool_writes_the_checksums_that_its_publisher_has(tmp_path, publisher, monkeypatch) -> None:
    tool = make(tmp_path, publisher)
    for processor in pin_published.PROCESSORS:  # the server has them for this machine
        for suffix in ("", ".sha256"):
            publisher.files.setdefault(
                f"/v1.0.0/bin/{KIND}/{processor}/tool{suffix}",
                publisher.files[f"/v1.0.0/bin/{KIND}/{PROCESSOR}/tool{suffix}"],
            )
    assert pin_published.main(tmp_path) == 0
    assert set(program_download.read_recorded_publisher_checksums(tool).values()) == {
        hashlib.sha256(PROGRAM).hexdigest()
    }
    assert program_download.has_all_published_checksums(tool)
    publisher.files = {}
    assert pin_published.main(tmp_path) == 1 and program_download.has_all_published_checksums(tool), (
        "it keeps what it had"
    )


def test_a_program_that_contains_source_of_ours_cannot_be_fetched(tmp_path, publisher) -> None:
    make(tmp_path, publisher)
    (tmp_path / "tool" / "main.go").write_text("package main\n")
    with pytest.raises(InputError, match="published programs do not contain main.go"):
        component_spec.load_component(tmp_path / "tool")


def test_the_published_programs_are_those_without_source_of_ours() -> None:
    known = component_selection.load_all_components(COMPONENTS)
    published = {name: one for name, one in known.items() if one.build.published}
    assert set(published) >= {"control-plane", "etcd", "kwok"}
    for one in published.values():
        for template in filter(None, (one.build.published.url, one.build.published.sums)):
            address = program_download.binary_url(template, one, next(iter(one.build.binaries)))
            assert address.startswith("https://") and one.version in address and "{" not in address
