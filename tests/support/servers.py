"""Real servers for tests: S3, OpenSearch, MLflow, Prometheus, OTLP, a TLS proxy. Each has a free port of loopback.

``tools/fetch_test_servers.py`` gets them; a test whose server is not there is reported as not run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("seatrial_tools_services", ROOT / "tools" / "fetch_test_servers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command: list[str], log: Path, ready: str, limit: float = 240.0, **more: object) -> Iterator[None]:
    """Run a server while the body does; it is there when ``ready`` answers anything by HTTP."""
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, **more
        )
    try:
        deadline = time.monotonic() + limit
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not come up:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


S3_KEYS = ("test-access-key", "test-secret-key-7d1f")


@contextlib.contextmanager
def s3(folder: Path, buckets: tuple[str, ...] = ("results",), part: str = "") -> Iterator[str]:
    """Run versitygw over a folder of files; yield its address."""
    program = _tool().built("versitygw")
    if program is None:
        pytest.skip("no versitygw here (tools/fetch_test_servers.py versitygw)")
    pytest.importorskip("boto3", reason="boto3 is not installed")
    data = folder / "s3"
    data.mkdir()
    for bucket in buckets:
        (data / bucket).mkdir()
    port = free_port()
    env = {**os.environ, "ROOT_ACCESS_KEY": S3_KEYS[0], "ROOT_SECRET_KEY": S3_KEYS[1]}
    command = [str(program), "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(folder / "meta"), str(data)]
    (folder / "meta").mkdir()
    with running(command, folder / "s3.log", f"http://127.0.0.1:{port}/", env=env):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def opensearch(folder: Path) -> Iterator[str]:
    """Run one node of OpenSearch; yield its address."""
    jars = _tool().opensearch()
    if not jars.is_dir() or shutil.which("java") is None:
        pytest.skip("no OpenSearch here (tools/fetch_test_servers.py opensearch)")
    # It listens long after its ports were chosen, so that the workers of a test run have ports of their own.
    first = 9200 + 40 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    base = next(port for port in range(first, first + 40) if _free(port + 1) and _free(port + 101))
    command = ["java", "-Xms512m", "-Xmx512m", "-cp", f"{jars}/lib/*"]
    command += ["org.codelibs.opensearch.runner.OpenSearchRunner", "-basePath", str(folder / "opensearch")]
    command += ["-numOfNode", "1", "-baseHttpPort", str(base), "-clusterName", f"tests-{os.getpid()}"]
    address = f"http://127.0.0.1:{base + 1}"
    with running(command, folder / "opensearch.log", f"{address}/", limit=400, cwd=folder):
        # Else it refuses new indices on a disk that is nearly full, whatever the size of ours.
        settings = json.dumps({"transient": {"cluster.routing.allocation.disk.threshold_enabled": False}}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/_cluster/settings", settings, headers, method="PUT")
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.load(reply)["acknowledged"]
        yield address


def mlflow_packages() -> Path:
    """Return the folder with the packages of MLflow."""
    packages = _tool().mlflow() / "packages"
    if not packages.is_dir():
        pytest.skip("no MLflow here (tools/fetch_test_servers.py mlflow)")
    return packages


@contextlib.contextmanager
def tokenizers_importable() -> Iterator[None]:
    """Let this process import the library tokenizers, as if it were installed."""
    packages = str(_tool().tokenizers() / "packages")
    if not Path(packages).is_dir():
        pytest.skip("no library tokenizers here (tools/fetch_test_servers.py tokenizers)")
    sys.path.append(packages)
    try:
        yield
    finally:
        sys.path.remove(packages)


@contextlib.contextmanager
def mlflow(folder: Path) -> Iterator[str]:
    """Run an MLflow tracking server; yield its address. As Flask runs it: mlflow server starts three processes."""
    port = free_port()
    env = {
        **os.environ,
        "PYTHONPATH": str(mlflow_packages()),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/mlflow.db",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": str(folder),
    }
    command = [sys.executable, "-m", "flask", "--app", "mlflow.server:app", "run", "--port", str(port)]
    with running(command, folder / "mlflow.log", f"http://127.0.0.1:{port}/health", env=env, cwd=folder):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def otel_collector(folder: Path, to: str) -> Iterator[str]:
    """Run the OpenTelemetry Collector, which answers when ``to`` has taken what it received; yield its address."""
    program = _tool().built("otel-collector")
    if program is None:
        pytest.skip("no OpenTelemetry Collector here (tools/fetch_test_servers.py otel-collector)")
    import yaml

    port = free_port()
    exporter = {
        "endpoint": to,
        "encoding": "json",
        "compression": "none",
        "sending_queue": {"enabled": False},
        "retry_on_failure": {"enabled": False},
    }
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"otlphttp": exporter},
        "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlphttp"]}}},
    }
    path = folder / "collector.yml"
    path.write_text(yaml.safe_dump(config))
    with running([str(program), "--config", str(path)], folder / "collector.log", f"http://127.0.0.1:{port}/"):
        yield f"http://127.0.0.1:{port}"


def _free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def prometheus_program() -> Path:
    """Return the file of Debian's Prometheus, which may not be there; promtool is beside it."""
    return _tool().prometheus() / "usr" / "bin" / "prometheus"


@contextlib.contextmanager
def prometheus(folder: Path, *scrapes: dict[str, object]) -> Iterator[str]:
    """Run Debian's Prometheus, with these scrape_configs, every second; yield its address."""
    program = prometheus_program()
    if not program.is_file():
        pytest.skip("no Prometheus here (tools/fetch_test_servers.py prometheus)")
    import yaml

    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": list(scrapes)}))
    port = free_port()
    command = [str(program), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with running(command, folder / "prometheus.log", f"http://127.0.0.1:{port}/-/ready"):
        yield f"http://127.0.0.1:{port}"


def credentials(kubeconfig: str, folder: Path) -> dict[str, str]:
    """Write what a kubeconfig holds as the files that Prometheus reads."""
    import base64

    import yaml

    config = yaml.safe_load(Path(kubeconfig).read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    held = {
        "ca_file": cluster.get("certificate-authority-data"),
        "cert_file": user.get("client-certificate-data"),
        "key_file": user.get("client-key-data"),
    }
    files = {
        "ca_file": cluster.get("certificate-authority"),
        "cert_file": user.get("client-certificate"),
        "key_file": user.get("client-key"),
    }
    for name, data in held.items():
        if data:
            (folder / name).write_bytes(base64.b64decode(data))
            files[name] = str(folder / name)
    return files


def certificate(folder: Path, *hosts: str) -> tuple[Path, Path]:
    """Return a self-signed certificate for 127.0.0.1 and further host names, and its key."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    names = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, hosts)]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "server.crt", folder / "server.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


@contextlib.contextmanager
def tls(folder: Path, to: str) -> Iterator[tuple[str, Path]]:
    """Put TLS before a server of plain HTTP; yield the https address and the CA file."""
    host, port = to.removeprefix("http://").split(":")
    crt, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(crt, key)
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                raw, _peer = listener.accept()
            except OSError:
                return
            threading.Thread(target=_relay, args=(raw, context, (host, int(port))), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", crt
    finally:
        over.set()
        listener.close()


def _relay(raw: socket.socket, context: ssl.SSLContext, to: tuple[str, int]) -> None:
    with (
        contextlib.suppress(OSError),
        context.wrap_socket(raw, server_side=True) as near,
        socket.create_connection(to) as far,
    ):
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join(timeout=30)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def get(url: str) -> dict:
    """Return a JSON document."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())
