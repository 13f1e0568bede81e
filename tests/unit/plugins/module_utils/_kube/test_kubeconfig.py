"""Forms of a kubeconfig, and that no credential comes out of it but to its server."""

from __future__ import annotations

import base64
import datetime
import json
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig, requested_credentials
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import Broken, ProxyAddress
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted_server import Asked, ScriptedServer, reply

CANARY = "canary-5c1e0b7d"


@pytest.fixture(scope="module")
def pem() -> dict[str, bytes]:
    """A self-signed certificate with its key, and a key that is no pair with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )

    def text(one: ec.EllipticCurvePrivateKey) -> bytes:
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return one.private_bytes(serialization.Encoding.PEM, form, plain)

    return {
        "certificate": certificate.public_bytes(serialization.Encoding.PEM),
        "key": text(key),
        "other": text(ec.generate_private_key(ec.SECP256R1())),
    }


def write(folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> Path:
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.lab.example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        **top,
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_client_certificate_is_taken_from_data_and_from_files_beside_the_kubeconfig(
    tmp_path: Path, pem: dict[str, bytes]
) -> None:
    (tmp_path / "c.pem").write_bytes(pem["certificate"])
    (tmp_path / "k.pem").write_bytes(pem["key"])
    authority = {"certificate-authority-data": data(pem["certificate"])}
    inline = {"client-certificate-data": data(pem["certificate"]), "client-key-data": data(pem["key"])}
    files = {"client-certificate": "c.pem", "client-key": "k.pem"}
    for user in (inline, files):
        access = load_context_access(write(tmp_path, authority, user))
        assert (access.host, access.port, access.namespace, access.authorization) == (
            "api.lab.example.com",
            6443,
            "mine",
            "",
        )
        assert access.context is not None and access.context.verify_mode == ssl.CERT_REQUIRED
        assert access.context.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({}, {"client-certificate-data": "CERT", "client-key-data": "OTHER"}, "not a pair"),
        ({}, {"client-certificate-data": "CERT"}, "it has client-certificate but no client-key"),
        ({}, {"client-key-data": "KEY"}, "it has client-key but no client-certificate"),
        ({}, {"client-certificate": "missing.pem"}, "missing.pem can't be read: No such file"),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "certificate-authority is not a PEM certificate"),
        ({"certificate-authority-data": "%"}, {}, "certificate-authority-data is not base64"),
        ({"server": "api.lab.example.com"}, {}, "'api.lab.example.com' is not an http(s) URL"),
        ({"server": "https://ada:pw@host:99999"}, {}, "server 'host:99999' is not an http(s) URL"),
        ({"proxy-url": "https://p:1"}, {}, "proxy-url has scheme 'https'"),
    ],
)
def test_what_is_wrong_in_a_kubeconfig_is_named(
    tmp_path: Path, pem: dict[str, bytes], cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    stands_for = {"CERT": data(pem["certificate"]), "KEY": data(pem["key"]), "OTHER": data(pem["other"])}
    user = {key: stands_for.get(value, value) for key, value in user.items()}
    with pytest.raises(InputError) as caught:
        load_context_access(write(tmp_path, cluster, user))
    assert words in str(caught.value) and str(tmp_path) in str(caught.value)


def test_unknown_names_come_with_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no context 'her' in contexts \(did you mean 'here'\?\)"):
        load_context_access(write(tmp_path), "her")
    contexts = [{"name": "here", "context": {"cluster": "d", "user": "u"}}]
    with pytest.raises(InputError, match="no cluster 'd' in clusters"):
        load_context_access(write(tmp_path, contexts=contexts))


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "clusters: {}"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=str(path)):
        load_context_access(path)
    with pytest.raises(InputError, match="no such file"):
        load_context_access(tmp_path / "none")


def test_a_token_file_wins_over_a_token_while_it_can_be_read_and_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    both = load_context_access(write(tmp_path, user={"token": "given", "tokenFile": "token"}))
    assert both.authorization == "Bearer first" and both.refresh() is False
    access = load_context_access(write(tmp_path, user={"tokenFile": "token"}))
    assert access.authorization == "Bearer first" and access.refresh() is False
    (tmp_path / "token").write_text("second\n")
    assert access.refresh() is True and access.authorization == "Bearer second"
    (tmp_path / "token").unlink()
    assert both.refresh() is True and both.authorization == "Bearer given"
    with pytest.raises(Broken, match="token can't be read"):  # which is tried again, as an unreachable server is
        access.refresh()


def test_an_exec_plugin_is_run_and_run_again(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\necho x >> $(dirname $0)/calls\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",\'\n'
        'echo "\\"status\\":{\\"token\\":\\"t$(wc -l < $(dirname $0)/calls | tr -d " ")\\"}}"\n'
    )
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}
    access = load_context_access(write(tmp_path, {"insecure-skip-tls-verify": True}, user))
    assert access.authorization == "Bearer t1"
    assert access.refresh() is True and access.authorization == "Bearer t2"
    # Another thread whose token was refused too finds that it has been renewed since.
    assert access.refresh("Bearer t1") is True and access.authorization == "Bearer t2"
    assert access.refresh("Bearer t2") is True and access.authorization == "Bearer t3"


def test_an_exec_plugin_that_fails_is_told_without_what_it_printed(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho {CANARY}; echo {CANARY} >&2; exit 3\n")
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}
    with pytest.raises(AccessError, match="'exec' returned no credentials: .*plugin ended with 3") as caught:
        load_context_access(write(tmp_path, {}, user))
    assert CANARY not in str(caught.value)
    plugin.write_text(f"#!/bin/sh\necho {CANARY}\n")
    with pytest.raises(AccessError, match="printed no ExecCredential") as caught:
        load_context_access(write(tmp_path, {}, user))
    assert CANARY not in str(caught.value)


def test_a_program_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login", "installHint": "Get it."}
    entry["interactiveMode"] = "Never"
    with pytest.raises(AccessError, match="there is no program 'no-such-login'. Get it."):
        load_context_access(write(tmp_path, {}, {"exec": entry}))
    with pytest.raises(InputError, match="'exec' requires command and apiVersion"):
        load_context_access(
            write(tmp_path, {}, {"exec": {"apiVersion": "client.authentication.k8s.io/v0", "command": "x"}})
        )


def test_an_exec_plugin_is_told_what_it_is_for_and_may_give_a_certificate(
    tmp_path: Path, pem: dict[str, bytes]
) -> None:
    (tmp_path / "status.json").write_text(
        json.dumps(
            {
                "apiVersion": "client.authentication.k8s.io/v1",
                "kind": "ExecCredential",
                "status": {
                    "clientCertificateData": pem["certificate"].decode(),
                    "clientKeyData": pem["key"].decode(),
                    "expirationTimestamp": "2020-01-01T00:00:00Z",
                },
            }
        )
    )
    plugin = tmp_path / "login"
    plugin.write_text(
        '#!/bin/sh\nprintf "%s" "$KUBERNETES_EXEC_INFO" > $(dirname $0)/info\necho $1 $LAB > $(dirname $0)/words\n'
        "cat $(dirname $0)/status.json\n"
    )
    plugin.chmod(0o755)
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "args": ["--for-test"],
        "env": [{"name": "LAB", "value": "example"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    access = load_context_access(write(tmp_path, {"tls-server-name": "api"}, {"exec": entry}))
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["cluster"] == {"server": "https://api.lab.example.com:6443", "tls-server-name": "api"}
    assert (tmp_path / "words").read_text().split() == ["--for-test", "example"]
    # It has expired, so that the next connection asks for another one and shows that.
    before = access.context
    access.renew()
    assert access.authorization == "" and access.context is not before


class OpenShift:
    """A stand-in for an OpenShift API server and its OAuth server in one."""

    def __init__(self, password: str = "right", lasts: str = "86400") -> None:
        self.password, self.lasts = password, lasts
        self.logins = 0
        self.server = ScriptedServer(self.answer)

    def answer(self, asked: Asked) -> Any:
        shown = asked.headers.get("authorization", "")
        if asked.path == "/.well-known/oauth-authorization-server":
            assert shown == "", "the password went to the API server"
            return 200, {"authorization_endpoint": f"http://127.0.0.1:{self.server.port}/oauth/authorize"}
        if asked.path.startswith("/oauth/authorize?"):
            query = parse_qs(asked.path.partition("?")[2])
            assert query == {"response_type": ["token"], "client_id": ["openshift-challenging-client"]}
            if shown != "Basic " + data(f"me:{self.password}".encode()) or not asked.headers.get("x-csrf-token"):
                return reply(401, b"")
            self.logins += 1
            token = f"access_token=sha256~{self.logins}&expires_in={self.lasts}&scope=user%3Afull&token_type=Bearer"
            return reply(302, b"", Location=f"http://x/oauth/token/implicit#{token}")
        if shown != f"Bearer sha256~{self.logins}":
            return 401, {}
        return 200, {"metadata": {}, "items": []}


@pytest.mark.parametrize("lasts", ["86400", "%C2%B2", "9" * 5000])
def test_user_name_and_password_log_in_at_the_oauth_server_that_the_cluster_names(tmp_path: Path, lasts: str) -> None:
    cluster = OpenShift(lasts=lasts)
    with cluster.server as server:
        path = server.kubeconfig(tmp_path / "k", {"username": "me", "password": "right"})
        assert server.asked == [], "it was logged in before there was anything to ask"
        with Client.from_kubeconfig(path) as client:
            assert client.request("GET", "/api/v1/pods")["items"] == []
            client.request("GET", "/api/v1/pods")
            assert cluster.logins == 1
            cluster.logins += 1  # the token was revoked
            assert client.request("GET", "/api/v1/pods")["items"] == []
            assert cluster.logins == 3


def test_a_wrong_password_is_said_to_be_one_and_is_not_shown(tmp_path: Path) -> None:
    with OpenShift().server as server:
        path = server.kubeconfig(tmp_path / "k", {"username": "me", "password": CANARY})
        with Client.from_kubeconfig(path) as client, pytest.raises(AccessError, match="refuses user 'me'") as caught:
            client.request("GET", "/api/v1/pods")
    assert CANARY not in str(caught.value)


def test_where_no_oauth_server_is_named_user_name_and_password_are_a_basic_header(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: (404 if "well-known" in asked.path else 200, {})) as server:
        path = server.kubeconfig(tmp_path / "k", {"username": "me", "password": "pass:word"})
        with Client.from_kubeconfig(path) as client:
            client.request("GET", "/api")
        assert server.asked[-1].headers["authorization"] == "Basic " + data(b"me:pass:word")


def test_a_password_is_not_sent_to_an_oauth_server_without_tls(tmp_path: Path) -> None:
    access = load_context_access(write(tmp_path, user={"username": "me", "password": CANARY}))
    with pytest.raises(AccessError, match="not sent over plain http"):
        requested_credentials._verified_oauth_server("http://oauth.lab.example.com/authorize", access, None)


def test_the_authorities_for_the_oauth_server_are_not_trusted_for_the_api_server(
    tmp_path: Path, pem: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda context: trusting.append(context))
    authority = {"certificate-authority-data": data(pem["certificate"])}
    user = {"client-certificate-data": data(pem["certificate"]), "client-key-data": data(pem["key"])}
    access = load_context_access(write(tmp_path, authority, user))
    oauth = requested_credentials._verified_oauth_server("https://oauth.lab.example.com/a", access, pem["certificate"])
    assert trusting == [oauth.context] and access.context not in trusting
    assert oauth.context is not None and oauth.context.verify_mode == ssl.CERT_REQUIRED
    assert oauth.context.cert_store_stats()["x509"] == 1


def test_in_a_pod_the_service_account_is_taken_and_its_token_read_anew(
    tmp_path: Path, pem: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="not in a pod with a service account"):
        load_context_access("in-cluster")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for name, content in (("token", b"one\n"), ("ca.crt", pem["certificate"]), ("namespace", b"perf\n")):
        (tmp_path / name).write_bytes(content)
    access = load_context_access("in-cluster")
    assert (access.server, access.host, access.port, access.namespace) == (
        "https://[fd00::1]:6443",
        "fd00::1",
        6443,
        "perf",
    )
    assert access.authorization == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert access.refresh("Bearer one") and access.authorization == "Bearer two"


def test_a_proxy_gets_its_own_user_name_and_password(tmp_path: Path) -> None:
    access = load_context_access(write(tmp_path, {"proxy-url": "http://me:p%40ss@proxy.lab.example.com:3128"}))
    assert access.proxy == ProxyAddress("http", "proxy.lab.example.com", 3128, "me", "p@ss")


def test_insecure_asks_for_no_certificate_and_a_server_name_is_kept(tmp_path: Path) -> None:
    access = load_context_access(write(tmp_path, {"insecure-skip-tls-verify": True, "tls-server-name": "api"}))
    assert access.context is not None and access.context.verify_mode == ssl.CERT_NONE
    assert (access.insecure, access.server_name) == (True, "api")


def test_no_credential_shows_in_repr_or_errors(tmp_path: Path, pem: dict[str, bytes]) -> None:
    access = load_context_access(write(tmp_path, user={"token": CANARY}))
    assert CANARY not in repr(access) and CANARY in access.authorization
    user = {"client-certificate-data": data(pem["certificate"]), "client-key-data": data(CANARY.encode())}
    with pytest.raises(InputError) as caught:
        load_context_access(write(tmp_path, {}, user))
    assert CANARY not in str(caught.value) and data(CANARY.encode()) not in str(caught.value)
    with pytest.raises(InputError) as caught:
        load_context_access(write(tmp_path, {"proxy-url": f"ftp://me:{CANARY}@proxy:1"}))
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(load_context_access(write(tmp_path, {"proxy-url": f"http://me:{CANARY}@proxy:1"})))


def test_a_standalone_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    (tmp_path / "token").write_text("secret\n")
    path = tmp_path / "config"
    config = {
        "current-context": "b",
        "contexts": [{"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://h:1", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    path.write_text(json.dumps(config))
    found = json.loads(kubeconfig.render_standalone_kubeconfig(path))
    assert found["clusters"][0]["cluster"] == {
        "server": "http://h:1", "certificate-authority-data": base64.b64encode(b"authority").decode()
    }  # fmt: skip
    assert found["users"][0]["user"] == {"token": "secret"}
    config["users"] = [{"name": "u", "user": {"exec": {"apiVersion": "x", "command": "/bin/true"}}}]
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match="exec"):
        kubeconfig.render_standalone_kubeconfig(path)


@pytest.mark.parametrize("written", ["request.yml", "001__cluster__acquire/arguments.yml"])
def test_no_program_is_run_for_a_kubeconfig_in_a_run_directory(written: str, tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}}
    (tmp_path / "clusters").mkdir()
    (tmp_path / "run.yml").write_text("a playbook may have this name")
    with pytest.raises(AccessError, match="there is no program 'x'"):
        load_context_access(write(tmp_path / "clusters", {}, user))
    (tmp_path / written).parent.mkdir(exist_ok=True)
    (tmp_path / written).write_text("")
    for credentials in (user, {"auth-provider": {"name": "gcp", "config": {"cmd-path": "x"}}}):
        with pytest.raises(InputError, match="run directory .*, of which nothing is executed"):
            load_context_access(write(tmp_path / "clusters", {}, credentials))
    assert load_context_access(write(tmp_path / "clusters", {}, {"token": "t"})).held == "Bearer t"


NAMING_FILES = ["tokenFile", "certificate-authority", "client-certificate", "client-key"]


def write_named(folder: Path, key: str, name: str) -> Path:
    """Write a kubeconfig in which ``key`` names a file."""
    if key == "certificate-authority":
        return write(folder, {key: name})
    return write(folder, {}, {key: name, **({"client-certificate-data": data(b"c")} if key == "client-key" else {})})


@pytest.mark.parametrize("key", NAMING_FILES)
def test_a_kubeconfig_in_a_run_directory_reads_no_file_outside_of_it(key: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "private").write_text(f"{CANARY}\n")
    (run / "link").symlink_to(tmp_path / "private")
    (run / "request.yml").write_text("")

    def load(name: str) -> Any:
        return load_context_access(write_named(run, key, name))

    for name in (str(tmp_path / "private"), "../private", "link"):
        with pytest.raises(InputError, match=f"{key} names .*, which is outside of the run directory"):
            load(name)
    (run / "token").write_text("t\n")
    if key == "tokenFile":
        assert load("token").held == "Bearer t"


@pytest.mark.parametrize("key", NAMING_FILES)
def test_a_file_that_has_no_end_is_not_read(key: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"t" * (2**20 + 1))
    for name, why in (
        ("/dev/zero", "not a regular file"),
        ("pipe", "not a regular file"),
        ("large", "more than 1 MiB"),
    ):
        with pytest.raises((AccessError, InputError), match=f"can't be read: it (is|has) {why}"):
            load_context_access(write_named(tmp_path, key, name))
