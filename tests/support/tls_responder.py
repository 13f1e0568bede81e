"""A trivial API server over TLS: it creates whatever it is sent, at once, and knows nothing else.

usage: tls_responder.py FOLDER      writes FOLDER/kubeconfig when it listens; ends when its stdin is closed
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

KINDS = {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["create"]}]}


def certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1 into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "responder")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + made.public_bytes(serialization.Encoding.PEM)
    path = folder / "server.pem"
    path.write_bytes(pem)
    path.with_name("ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


class Responder(asyncio.Protocol):
    """One connection."""

    number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._held = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            at = head.find(b"Content-Length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            self._held = self._held[end + 4 + length :]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        if head.startswith(b"POST"):
            Responder.number += 1
            body = (
                b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x","uid":"u-%d",'
                b'"resourceVersion":"%d"}}' % (Responder.number, Responder.number)
            )
            status = b"201 Created"
        else:
            body, status = json.dumps(KINDS).encode(), b"200 OK"
        self._transport.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


async def main(folder: Path) -> None:
    """Listen until stdin ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Responder, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    authority = base64.b64encode((folder / "ca.pem").read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    temporary = folder / "kubeconfig.new"
    temporary.write_text(json.dumps(document), encoding="utf-8")
    temporary.rename(folder / "kubeconfig")
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
