"""Generated kubeconfigs, with kubectl as the judge: the same credentials reach the same server, or both refuse."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import random
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

EXEC = "client.authentication.k8s.io/v1"
#: Words of our refusals of what kubectl takes, ignores or asks a terminal for (docs/load.md names them).
STRICTER = (
    "unknown field",
    "no user '",
    "it has client-key but no client-certificate",
    "is not a valid name of a namespace",
    "its user has a password but no username",
)
pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")


class Lab:
    """An API server that records the credentials that reach it, and the files that kubeconfigs name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[list[tuple[str, str]]] = []
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lab")])
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("api.lab.example.com")]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(key, hashes.SHA256())
        )
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
        (folder / "token").write_text("of-file\n")
        for program, version in (("login", EXEC), ("other-login", f"{EXEC}beta1")):
            reply = f'{{"apiVersion":"{version}","kind":"ExecCredential","status":{{"token":"of-program"}}}}'
            (folder / program).write_text(f"#!/bin/sh\nprintf '%s' '{reply}'\n")
            (folder / program).chmod(0o755)
        lab = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shown = ("authorization", "impersonate")
                oauth = self.path.endswith("/.well-known/oauth-authorization-server")  # which only we ask for
                if not oauth:
                    lab.seen.append(
                        sorted(
                            (key.lower(), value) for key, value in self.headers.items() if key.lower().startswith(shown)
                        )
                    )
                self.send_response(404 if oauth else 200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.server.handle_error = lambda *_words: None  # type: ignore[method-assign]  # clients that refuse our certificate
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def asked(self) -> list[tuple[str, str]] | None:
        seen, self.seen = self.seen, []
        return seen[0] if seen else None


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    held = Lab(tmp_path_factory.mktemp("lab"))
    yield held
    held.server.shutdown()
    held.server.server_close()


def generated(chance: random.Random, port: int) -> dict[str, Any]:
    """A kubeconfig in which each field may be there, and some are wrong."""

    def some(choices: dict[str, list[Any]], share: float) -> dict[str, Any]:
        return {key: chance.choice(values) for key, values in choices.items() if chance.random() < share}

    cluster: dict[str, Any] = {"server": f"https://127.0.0.1:{port}{chance.choice(['', '', '/k8s/c-1', '/x/'])}"}
    cluster |= chance.choice(
        [{"certificate-authority": "cert.pem"}] * 6
        + [{"insecure-skip-tls-verify": True}, {"certificate-authority": "cert.pem", "insecure-skip-tls-verify": True}]
        + [{"certificate-authority": "none.pem"}, {"certificate-authority-data": "%"}, {}]
    )
    cluster |= some({"tls-server-name": ["api.lab.example.com", "wrong"], "disable-compression": [True, "yes"]}, 0.08)
    cluster |= some({"proxy-url": ["ftp://x:1", ""], "extensions": [[]], "servr": ["x"]}, 0.04)
    user: dict[str, Any] = some(
        {
            "token": ["plain", "a=b", " spaced ", "é", "", None, 5, True, "1e3"],
            "tokenFile": ["token", "none", ""],
            "client-certificate": ["cert.pem", "none.pem"],
            "client-key": ["key.pem"],
        },
        0.3,
    )
    user |= some({"username": ["me", "ü"], "password": ["secret", "x:y"]}, 0.15)
    user |= some({"as": ["bob", "system:serviceaccount:a:b", "", "ö"], "as-groups": [["a", "b c"], [], "a"]}, 0.25)
    user |= some(
        {"as-uid": ["7", 7], "as-user-extra": [{"Sc/ope%": ["1", "2"], "é": ["ö"]}, {"a": "b"}], "tokn": ["x"]}, 0.1
    )
    if chance.random() < 0.3:
        user["exec"] = {"apiVersion": EXEC, "command": "./login", "interactiveMode": "Never"}
        user["exec"] |= some(
            {"interactiveMode": ["", "IfAvailable", "Sometimes"], "apiVersion": [f"{EXEC}beta1", f"{EXEC}alpha1"]}, 0.2
        )
        user["exec"] |= some({"command": ["./other-login", "./none", ""], "args": [["a"], [1]]}, 0.15)
        user["exec"] |= some(
            {"env": [[{"name": "A", "value": "b"}], [{"name": ""}], [{"name": "A", "value": 1}]]}, 0.15
        )
    context: dict[str, Any] = {"cluster": "k", "user": "u"}
    context |= some({"namespace": ["mine", "", 5], "cluster": ["k2"], "user": ["u2", ""]}, 0.06)
    document: dict[str, Any] = {"current-context": "here"}
    document |= some(
        {"current-context": ["here", "there", 1, ""], "kind": ["Config", "Other"], "apiVersion": ["v1", "v2"]}, 0.08
    )
    document |= {"clusters": [{"name": "k", "cluster": cluster}], "users": [{"name": "u", "user": user}]}
    document["contexts"] = [{"name": "here", "context": context}]
    for plural in ("clusters", "users", "contexts"):
        if chance.random() < 0.04:
            document[plural].append({"name": chance.choice([document[plural][0]["name"], "second", 1])})
    return document


def by_kubectl(lab: Lab, path: Path) -> tuple[list[tuple[str, str]] | None, str]:
    words = ["kubectl", "--kubeconfig", str(path), "get", "--raw", "/probe", "--request-timeout=20s"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(lab.folder / "home")}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=environment, cwd=lab.folder, stdin=subprocess.DEVNULL
    )
    return lab.asked(), done.stderr


def by_us(lab: Lab, path: Path) -> tuple[list[tuple[str, str]] | None, str]:
    try:
        with Client.from_kubeconfig(path, timeout=20.0) as client:
            client.raw("GET", "/probe")
    except (InputError, AccessError) as error:
        return lab.asked(), str(error)
    return lab.asked(), ""


def compare(lab: Lab, seed: int) -> None:
    document = generated(random.Random(seed), lab.server.server_port)
    path = lab.folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    theirs, their_words = by_kubectl(lab, path)
    ours, our_words = by_us(lab, path)
    told = f"seed {seed}\n{path.read_text()}\nkubectl: {theirs} {their_words}\nours: {ours} {our_words}"
    if ours is None and any(words in our_words for words in STRICTER):
        return
    if "EOF" in their_words and ours is not None:  # kubectl asks for a user name where it has no credentials
        assert not any(key == "authorization" for key, _value in ours), told
        return
    assert ours == theirs, told


def test_a_few_kubeconfigs_mean_what_they_mean_to_kubectl(lab: Lab) -> None:
    for seed in range(25):
        compare(lab, seed)


@pytest.mark.long
def test_500_kubeconfigs_mean_what_they_mean_to_kubectl(lab: Lab) -> None:
    for seed in range(1000, 1500):
        compare(lab, seed)
