"""The secret gate finds every encoding of a secret in every kind of file, and shows none."""

from __future__ import annotations

import base64
import bz2
import gzip
import html
import io
import json
import lzma
import random
import re
import shlex
import tarfile
import zipfile
import zlib
from urllib.parse import quote
from xml.sax import saxutils

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import (
    secret_encodings,
    secret_gate,
    untrusted_archives,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_directory import World, write_run
from tar_files import giant_header

SECRET = 'pass/word+"7d1f" of a setting'
TEXT = f"one\n{SECRET}\n".encode()
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=8, max_size=40)


def found_in(tmp_path, text, **secrets):
    path = tmp_path / "file.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(one) for one in secret_gate.SecretScanner(secrets).search(tmp_path, [path])]


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        json.dumps({"x": SECRET}),
        json.dumps({"x": SECRET}).replace("/", "\\/"),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"user:" + SECRET.encode()).decode(),
        base64.b64encode(b"ab" + SECRET.encode() + b" and more").decode(),
        base64.urlsafe_b64encode(b"x" + SECRET.encode()).decode(),
    ],
)
def test_a_known_value_is_found_however_it_is_spelled(tmp_path, spelled):
    assert found_in(tmp_path, f"one\ntwo\n{spelled}\n", token=SECRET) == ["file.log:3: the value of token"]


def wrapped(content: bytes, width: int = 76, end: str = "\n") -> str:
    text = base64.b64encode(content).decode()
    return end.join(text[place : place + width] for place in range(0, len(text), width))


DOCUMENT = b"first: line of a configuration\npassword: " + SECRET.encode() + b"\nlast: line\n" * 5


@pytest.mark.parametrize(
    "spelled",
    [
        *[wrapped(b"x" * shift + DOCUMENT) for shift in (0, 1, 2, 3, 8, 15)],
        wrapped(b"x" * 51 + SECRET.encode()),  # its end is a short last line
        wrapped(DOCUMENT, 64, "\r\n"),
        wrapped(DOCUMENT, end="\n    "),
        json.dumps("one\n" + wrapped(DOCUMENT) + "\n"),
        base64.b64encode(base64.b64encode(DOCUMENT)).decode(),
        base64.b64encode(wrapped(DOCUMENT).encode()).decode(),
        wrapped(base64.b64encode(DOCUMENT)),
        base64.urlsafe_b64encode(base64.urlsafe_b64encode(b"\xff\xfe" + SECRET.encode())).decode(),
    ],
)
def test_a_known_value_is_found_in_base64_of_several_lines_and_twice_encoded(tmp_path, spelled):
    assert found_in(tmp_path, f"one\ntwo: {spelled}\nthree\n", token=SECRET) == [
        "file.log:2: the value of token, as base64"
    ]
    masked = secret_gate.SecretScanner({"token": SECRET}).masked(f"one\ntwo: {spelled}\nthree\n")
    assert not secret_gate.SecretScanner({"token": SECRET}).in_text(masked)
    assert masked.startswith("one\ntwo: ") and "<secret>" in masked


@given(SECRETS, st.binary(max_size=90), st.binary(max_size=90), st.sampled_from([60, 64, 76]), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_base64_in_lines_and_encoded_again_hides_no_known_value(secret, before, after, width, times):
    content = before + secret.encode() + after
    for _time in range(times):
        content = wrapped(content, width).encode()
    assert secret_gate.SecretScanner({"x": secret}).in_text(content.decode())


def test_a_token_inside_base64_is_found_by_its_form(tmp_path):
    key = base64.b64encode(b"[default]\naws_access_key_id = AKIA" + b"ABCDEFGH" * 2).decode()
    assert found_in(tmp_path, f"data: {key}\n") == ["file.log:1: an access key, as base64"]


AROUND = b"a line before it, " + SECRET.encode() + b", and more after it\n" + bytes(range(64))


def words(size, order):
    padded = AROUND + bytes(-len(AROUND) % size)
    return [int.from_bytes(padded[at : at + size], order) for at in range(0, len(padded), size)]


def dump(numbers, form, each=16, offset="{:07x} ", joint=" ", after=""):
    """Return numbers as a dump: each of them in ``form``, ``each`` in a line with its offset."""
    lines = range(0, len(numbers), each)
    return "".join(
        f"{offset.format(at)}{joint.join(map(form.format, numbers[at : at + each]))}{after}\n" for at in lines
    )


DUMPS = {
    "xxd": dump(words(2, "big"), "{:04x}", 8, "{:08x}: ", after="  .a line"),
    "xxd -e": dump(words(4, "little"), "{:08x}", 4, "{:08x}: ", after="  .a line"),
    "xxd -p": dump(AROUND, "{:02x}", 30, "", ""),
    "hexdump": dump(words(2, "little"), "{:04x}", 8),
    "hexdump -C": dump(AROUND, "{:02x}", 16, "{:08x}  ", after="  |.a line|"),
    "od": dump(words(2, "little"), "{:06o}", 8, "{:07o} "),
    "od -t d1": dump(AROUND, "{:4d}", 16, "{:07o} "),
    "bytes of C": dump(AROUND, "0x{:02x},", 12, "  "),
    "JSON": json.dumps([*AROUND], indent=2),
}


@pytest.mark.parametrize("how", DUMPS)
def test_a_known_value_is_found_and_masked_in_a_dump_of_several_lines(tmp_path, how):
    text = f"before\n{DUMPS[how]}after\n"
    assert found_in(tmp_path, text, token=SECRET)[0].startswith("file.log:")
    masked = secret_gate.SecretScanner({"token": SECRET}).masked(text)
    assert masked.startswith("before\n") and masked.endswith("after\n")
    assert found_in(tmp_path, masked, token=SECRET) == []


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("times", [1, 2])
def test_a_known_value_is_found_in_base64_of_packed_data(tmp_path, pack, times):
    """Helm keeps its releases like this."""
    content = pack(AROUND * 3)
    for _time in range(times):
        content = base64.b64encode(content)
    assert found_in(tmp_path, f"release: {content.decode()}\n", token=SECRET) == [
        "file.log:1: the value of token, as base64"
    ]


def test_packed_data_in_base64_are_unpacked_up_to_a_limit():
    content = zlib.compress(bytes(50_000_000), 9)
    sizes = [len(block) for _start, _end, block in secret_encodings.decode_base64_blocks(base64.b64encode(content))]
    assert max(sizes) <= 20 * len(content) + 2**16 < 2_000_000


@given(SECRETS, st.binary(max_size=20), st.binary(max_size=20))
@example("AAAAAAAA", b"", b"")
@settings(max_examples=60, deadline=None)
def test_base64_of_anything_around_it_holds_one_of_the_spellings(secret, before, after):
    text = base64.b64encode(before + secret.encode() + after)
    assert any(spelling in text for spelling in secret_encodings.encodings_of_secrets({"x": secret}))


FORMATS = {
    "json": json.dumps,
    "json in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "json of Go": lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    "html": html.escape,
    "html of jinja": lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "text of html": lambda text: html.escape(text, quote=False),
    "xml": lambda text: saxutils.escape(text, {'"': "&quot;", "'": "&apos;"}),
    "xml attribute": saxutils.quoteattr,
    "yaml": lambda text: yaml.safe_dump({"a": {"key": text}}, width=20 if text.isascii() else 200),
    "yaml in double quotes": lambda text: yaml.safe_dump([text], default_style='"', width=20, allow_unicode=True),
    "yaml inside a text": lambda text: yaml.safe_dump(f"command --with '{text}' and more", width=40),
    "shell": shlex.quote,
    "shell command": lambda text: shlex.join(["a", f"x={text}"]),
    "address": lambda text: quote(text, safe=""),
    "address in lower case": lambda text: re.sub("%..", lambda code: code.group().lower(), quote(text, safe="")),
    "hex": lambda text: text.encode().hex(),
    "hex in upper case": lambda text: text.encode().hex().upper(),
}
NESTED = [
    (outer, inner) for outer in ("json", "html", "shell", "address", "xml") for inner in ("json", "html", "shell")
]


@pytest.mark.parametrize(
    "secret", ["""a'b"c<d>&e f\\g h""", "two words <and> 'quotes'", "pa$$`w`ord!ü?=&x", "plainword1"]
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_known_value_is_found_and_masked_in_every_format(tmp_path, format, secret):
    text = f"before {FORMATS[format](secret)} after"
    assert found_in(tmp_path, text, token=secret), text
    assert not found_in(tmp_path, secret_gate.SecretScanner({"token": secret}).masked(text), token=secret)


@pytest.mark.parametrize(("outer", "inner"), NESTED)
def test_a_known_value_is_found_in_one_format_inside_another(tmp_path, outer, inner):
    text = FORMATS[outer](FORMATS[inner](SECRET))
    assert found_in(tmp_path, text, token=SECRET), text


def begins(what):
    """The first line of a PEM file; put together, so that this file is none."""
    return f"-----BEGIN {what}-----"


KEY = f"{begins('RSA PRIVATE KEY')}\nMIIEow\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (KEY, "a private key"),
        (begins("PRIVATE KEY"), "a private key"),
        (begins("OPENSSH PRIVATE KEY"), "a private key"),
        (f"client-key-data: {base64.b64encode(KEY.encode()).decode()}", "a private key, as base64"),
        ("Authorization: Bearer abcDEF0123456789xyz", "a bearer token"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0xyz.c2lnbmF0dXJl", "a web token"),
        ("token: sha256~abcdefghijklmnopqrstuvwxyz012345", "an OpenShift token"),
        ("AKIAIOSFODNN7EXAMPLE", "an access key"),
        ("HF_TOKEN=hf_" + "aB3" * 12, "a model hub token"),
        ("ghp_" + "a1B2" * 10, "a Git token"),
        ("proxy http://someone:hunter22@proxy.example.com:3128", "a password in an address"),
        ("redis://:hunter22@cache:6379/0", "a password in an address"),
        ("s3://AKEY:hunter22@bucket/runs", "a password in an address"),
        ("postgresql+psycopg2://jo:hunter22@db/x", "a password in an address"),
        ("HTTPS://jo:hunter22@example.com", "a password in an address"),
        ("github_" + "pat_" + "a1B2" * 15, "a Git token"),
        ("xox" + "b-123456789012-abcdefghijkl", "a Slack token"),
        ("https://hooks." + "slack.com/services/T0000000/B0000000/abcdefghijklmnop", "a Slack webhook"),
        ("OPENAI_API_KEY=sk-" + "proj-" + "aB3" * 16, "a key of an interface"),
        ("nva" + "pi-" + "aB3-" * 15, "a key of an interface"),
        ("npm" + "_" + "aB3d" * 9, "a token of a registry"),
        ("> Authorization: Basic am86aHVudGVyMjI=", "a user and a password"),
        ('{\\"authorization\\": \\"Basic am86aHVudGVyMjI=\\"}', "a user and a password"),
        ('{"auths":{"r.example.com":{"auth":"am86aHVudGVyMjI="}}}', "a user and a password"),
    ],
)
def test_forms_that_only_secrets_have_are_found(tmp_path, text, what):
    assert found_in(tmp_path, f"first line\n{text}\n") == [f"file.log:2: {what}"]


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        base64.b64encode(b"-----BEGIN CERTIFICATE-----" + b"A" * 200).decode(),
        "the bearer of this message, Bearer authentication, bearer tokens",
        "https://127.0.0.1:6443/api?x=1 and user@example.com, ssh://git@host/x",
        "postgres://user:<secret>@host/db",
        "fine_tuning_model_token=<secret>",
    ],
)
def test_what_is_no_secret_passes(tmp_path, text):
    assert found_in(tmp_path, text) == []


def test_a_run_as_it_is_written_passes(tmp_path):
    top = write_run(tmp_path / "run", [(World(count=4, canary=2.0), {})])
    write_timeline(str(top))
    files = secret_gate.list_exportable_files(top)
    assert secret_gate.SecretScanner({"token": SECRET}).check(top, files) == len(files) > 8


def test_short_values_count_as_whole_words_only(tmp_path):
    assert found_in(tmp_path, "x=12345 and a12345b", pin="12345") == ["file.log:1: the value of pin"]
    assert found_in(tmp_path, "a12345b", pin="12345") == []


@pytest.mark.parametrize("kind", ["gz", "tar.gz", "zip", "tar"])
def test_packed_files_are_looked_into(tmp_path, kind):
    path, text = tmp_path / f"logs.{kind}", f"one\n{SECRET}\n".encode()
    (tmp_path / "inside.log").write_bytes(text)
    if kind == "gz":
        path.write_bytes(gzip.compress(text))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.write(tmp_path / "inside.log", "inside.log")
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as tar:
            tar.add(tmp_path / "inside.log", "inside.log")
    found = secret_gate.SecretScanner({"token": SECRET}).search(tmp_path, [path])
    assert any(one.line == 2 and one.what == "the value of token" and "(" in one.file for one in found)


def packed_tar(name, content, mode="w", **fields):
    """Return a tar file with one file. fields: of its header."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode) as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        for field, value in fields.items():
            setattr(member, field, value)
        tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def packed_zip(name, content, comment=b""):
    """Return a zip file with one file."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(name, content)
        packed.comment = comment
    return whole.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("part.bin", gzip.compress(TEXT), "part.bin (unpacked)"),
        ("LOGS.TGZ", packed_tar("a", TEXT, "w:gz"), "LOGS.TGZ (a)"),
        ("logs.txz", packed_tar("a", TEXT, "w:xz"), "logs.txz (a)"),
        ("twice.gz", gzip.compress(gzip.compress(TEXT)), "twice.gz (unpacked)"),
        ("logs.tar.gz", packed_tar("a.bz2", bz2.compress(TEXT), "w:gz"), "logs.tar.gz (a.bz2)"),
        ("logs.tar", packed_tar("in.tgz", packed_tar("a", TEXT, "w:gz")), "logs.tar (in.tgz/a)"),
        ("sheet.xlsx", packed_zip("in.zip", packed_zip("a", TEXT)), "sheet.xlsx (in.zip/a)"),
        ("named.tgz", packed_tar(f"{SECRET}.log", b"x", "w:gz"), "named.tgz (names)"),
        ("owner.tgz", packed_tar("a", b"x", "w:gz", uname=SECRET), "owner.tgz (names)"),
        ("group.tgz", packed_tar("a", b"x", "w:gz", gname=SECRET), "group.tgz (names)"),
        ("link.tgz", packed_tar("a", b"", "w:gz", linkname=SECRET, type=tarfile.SYMTYPE), "link.tgz (names)"),
        ("pax.tgz", packed_tar("a", b"x", "w:gz", pax_headers={"comment": SECRET}), "pax.tgz (names)"),
        ("end.tgz", gzip.compress(packed_tar("a", b"x") + TEXT), "end.tgz (end)"),
        ("note.tgz", packed_tar("in.zip", packed_zip("a", b"", SECRET.encode()), "w:gz"), "note.tgz (in.zip/names)"),
        ("object", zlib.compress(TEXT), "object (unpacked)"),
        ("objects.tar", packed_tar("object", zlib.compress(TEXT)), "objects.tar (object)"),
    ],
    # gzip writes the time, so the bytes would be another name in each process of xdist.
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_what_is_packed_shows_its_content_and_not_its_name(tmp_path, name, content, place):
    (tmp_path / name).write_bytes(content)
    found = secret_gate.SecretScanner({"token": SECRET}).search(tmp_path, [tmp_path / name])
    assert [one.file for one in found] == [place]


def test_packed_files_in_packed_files_have_a_limit(tmp_path):
    content = TEXT
    for _level in range(untrusted_archives.MOST_LEVELS + 1):
        content = gzip.compress(content)
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(DataError, match="more than 6 levels"):
        secret_gate.SecretScanner({}).search(tmp_path, [tmp_path / "x.gz"])


def test_what_can_not_be_unpacked_here_does_not_leave(tmp_path):
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd\x00")
    with pytest.raises(DataError, match="it is of Zstandard, which can't be unpacked here"):
        secret_gate.SecretScanner({}).search(tmp_path, [tmp_path / "x.zst"])


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-32"])
def test_a_known_value_is_found_in_wide_characters(tmp_path, coding):
    (tmp_path / "x.bin").write_bytes(f"a {SECRET} b".encode(coding))
    assert secret_gate.SecretScanner({"token": SECRET}).search(tmp_path, [tmp_path / "x.bin"])


def test_a_packed_file_that_can_not_be_read_does_not_leave(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8bbroken")
    with pytest.raises(DataError, match="cannot be searched for secrets"):
        secret_gate.SecretScanner({}).search(tmp_path, [tmp_path / "x.tar.gz"])


def test_a_secret_on_the_edge_of_two_parts_is_found_once_on_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_archives, "PART", 1000)
    monkeypatch.setattr(secret_gate, "OVERLAP", 200)
    random.seed(3)
    for place in (980, 995, 1000, 1999, 2500):
        lines = "\n".join("x" * 9 for _ in range(400))
        text = lines[:place] + "\n" + SECRET + "\n" + lines[place:]
        line = text[: text.index(SECRET)].count("\n") + 1
        assert found_in(tmp_path, text, token=SECRET) == [f"file.log:{line}: the value of token"]


def test_the_error_names_places_and_shows_no_secret(tmp_path):
    (tmp_path / "a.log").write_text(f"{SECRET}\n")
    with pytest.raises(
        secret_gate.SecretFound, match=r"nothing was exported: 1 place .* a.log:1: the value of token"
    ) as caught:
        secret_gate.SecretScanner({"token": SECRET}).check(tmp_path, [tmp_path / "a.log"])
    assert SECRET not in str(caught.value)


def test_credentials_of_a_kubeconfig_are_known(tmp_path):
    (tmp_path / "token").write_text("token-in-a-file-0123")
    (tmp_path / "config").write_text(
        "users:\n- name: a\n  user: {token: token-inline-4567, password: word-89, tokenFile: token}\n"
    )
    known = secret_gate.read_kubeconfig_credentials(tmp_path / "config")
    assert set(known.values()) == {"token-inline-4567", "word-89", "token-in-a-file-0123"}
    assert secret_gate.read_kubeconfig_credentials(tmp_path / "gone") == {}


def test_links_and_hidden_files_stay_here(tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert [path.name for path in secret_gate.list_exportable_files(tmp_path)] == ["real"]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(
                [
                    SECRET,
                    json.dumps(SECRET),
                    base64.b64encode(b"x" + SECRET.encode()).decode(),
                    "Bearer abcdef0123456789abcdef",
                    "https://me:hunter22@example.com/x",
                    f"{begins('RSA PRIVATE KEY')}\\nMIIEow\\n-----END RSA PRIVATE KEY-----",
                    begins("EC PRIVATE KEY") + "\nMHcC",
                    base64.b64encode((begins("EC PRIVATE KEY") + "\nMHcCAQEEI\n" * 9).encode()).decode(),
                ]
            ),
        ),
        max_size=8,
    )
)
@settings(deadline=None)
def test_a_masked_text_holds_no_secret_and_keeps_the_rest(parts):
    gate = secret_gate.SecretScanner({"token": SECRET})
    text = "before " + " | ".join(parts)
    masked = gate.masked(text)
    assert gate.in_text(masked) == [] and masked.startswith("before ")
    assert gate.masked(masked) == masked
    if not gate.in_text(text):
        assert masked == text


def test_credentials_of_a_program_and_of_a_provider_in_a_kubeconfig_are_known(tmp_path):
    variables = [
        {"name": "CLOUD_SECRET_ACCESS_KEY", "value": "of-the-program"},
        {"name": "REGION", "value": "east"},
        "x",
    ]
    provider = {"name": "oidc", "config": {"refresh-token": "of-the-provider", "idp-issuer-url": "https://idp"}}
    users = [{"name": "a", "user": {"exec": {"command": "login", "env": variables}, "auth-provider": provider}}]
    (tmp_path / "config").write_text(json.dumps({"users": users}))
    known = secret_gate.read_kubeconfig_credentials(tmp_path / "config")
    assert set(known.values()) == {"of-the-program", "of-the-provider"}


@pytest.mark.parametrize(
    "content", ["[]", "users: {a: 1}", "users: [a]", "users: [{user: b}]", "users: [{user: {exec: 1}}]"]
)
def test_a_kubeconfig_of_another_shape_has_no_credentials(tmp_path, content):
    (tmp_path / "config").write_text(content)
    assert secret_gate.read_kubeconfig_credentials(tmp_path / "config") == {}


@pytest.mark.parametrize("opener", [gzip.open, bz2.open, lzma.open], ids=[".gz", ".bz2", ".xz"])
def test_a_packed_file_is_searched_up_to_a_limit(tmp_path, monkeypatch, opener):
    suffix = {gzip.open: ".gz", bz2.open: ".bz2", lzma.open: ".xz"}[opener]
    path = tmp_path / f"samples{suffix}"
    with opener(path, "wb") as stream:
        stream.write(b"0" * 5000)
    scanner = secret_gate.SecretScanner({})
    assert scanner.search(tmp_path, [path]) == []
    monkeypatch.setattr(untrusted_archives, "MOST_UNPACKED", 4999)
    with pytest.raises(DataError, match="too much to search"):
        scanner.search(tmp_path, [path])


def test_a_small_file_that_unpacks_to_a_multiple_of_its_size_is_searched_up_to_a_smaller_limit(tmp_path, monkeypatch):
    path = tmp_path / "samples.gz"
    path.write_bytes(gzip.compress(b"0" * 500_000))
    scanner = secret_gate.SecretScanner({})
    assert path.stat().st_size < 1000 and scanner.search(tmp_path, [path]) == []
    monkeypatch.setattr(untrusted_archives, "ANY_UNPACKED", 200_000)
    with pytest.raises(DataError, match="too much to search"):
        scanner.search(tmp_path, [path])
    path.write_bytes(gzip.compress(b"0" * 500_000, 0))  # as large as its content
    assert scanner.search(tmp_path, [path]) == []


#: How a writer escapes any character.
ESCAPES = {
    "json": lambda code: f"\\u{code:04x}",
    "json_in_json": lambda code: f"\\\\u{code:04X}",
    "html": lambda code: f"&#{code};",
    "html_hexadecimal": lambda code: f"&#x{code:X};",
    "html_with_zeros": lambda code: f"&#{code:05};",
    "html_hexadecimal_with_zeros": lambda code: f"&#X{code:04X};",
    "html_in_html": lambda code: f"&amp;#{code};",
    "long_escapes": lambda code: f"\\U{code:08x}",
    "braces": lambda code: f"\\u{{{code:x}}}",
    "mail": lambda code: f"={code:02X}",
    "octal_in_json": lambda code: f"\\\\{code:03o}",
    "address": lambda code: f"%{code:02x}",
    "address_twice": lambda code: f"%25{code:02X}",
    "byte": lambda code: f"\\x{code:02x}",
    "octal": lambda code: f"\\{code:03o}",
    "dump": lambda code: f"{code:02x} ",
    "dump_colons": lambda code: f"{code:02X}:",
    "list_of_hexadecimals": lambda code: f"0x{code:02x}, ",
    "list_of_bytes": lambda code: f"{code}, ",
}


@pytest.mark.parametrize("how", ESCAPES)
def test_a_value_of_which_each_character_is_escaped_is_found_and_masked(tmp_path, how):
    escaped = "".join(ESCAPES[how](ord(sign)) for sign in SECRET)
    text = f"one\ntwo {escaped} three\n"
    assert found_in(tmp_path, text, token=SECRET) == ["file.log:2: the value of token"]
    masked = secret_gate.SecretScanner({"token": SECRET}).masked(text)
    rest = escaped[len(escaped.rstrip(" :,")) :]
    assert masked == f"one\ntwo {'0x' if how == 'list_of_hexadecimals' else ''}<secret>{rest} three\n"


@pytest.mark.parametrize(
    "first",
    [
        b"\x04\x22\x4d\x18",
        b"]\x00\x00\x80\x00",
        b"LZIP\x01",
        b"\x89LZO\x00",
        b"\x1f\x9d\x90",
        b"\xff\x06\x00\x00sNaPpY",
    ],
)
def test_what_python_can_not_unpack_is_not_exported(tmp_path, first):
    with pytest.raises(DataError, match="can't be unpacked here"):
        found_in(tmp_path, first + b"content" * 9, token=SECRET)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_packed_file_with_a_giant_header_is_not_exported(tmp_path, kind):
    with pytest.raises(DataError, match="headers of more than 1 MiB"):
        found_in(tmp_path, gzip.compress(giant_header(kind)), token=SECRET)
