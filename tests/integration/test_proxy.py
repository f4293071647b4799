"""The documented proxy: TLS in front of the service."""

import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from markdown import ROOT

from lab.benchmarks.daemon import free_port
from service.api import create_app
from service.api.guard import Access
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon
from tests.support.waiting import wait_until

NGINX, OPENSSL = shutil.which("nginx"), shutil.which("openssl")
pytestmark = pytest.mark.skipif(not (NGINX and OPENSSL), reason="needs nginx (make setup-proxy) and openssl")
TOKEN = {"Authorization": "Bearer s3cret"}


@pytest.fixture
def service() -> Iterator[int]:
    store, port = DaemonStore(None), free_port()
    app = create_app(fake_daemon(store), Access("s3cret"))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield port
    server.should_exit = True
    thread.join()
    store.close()


@pytest.fixture
def proxy(service: int, tmp_path: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A client of the proxy at ``https``, and the port at which it sends others there."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, "-keyout", key, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    secure, plain = free_port(), free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for ours, theirs in {
        "listen 443": f"listen 127.0.0.1:{secure}",
        "listen 80": f"listen 127.0.0.1:{plain}",
        "127.0.0.1:8080": f"127.0.0.1:{service}",
        "/etc/ssl/recompose.pem": str(certificate),
        "/etc/ssl/private/recompose.key": str(key),
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    paths = re.sub(r"\w+", lambda kind: f"{kind[0]}_temp_path {tmp_path};", "client_body proxy fastcgi uwsgi scgi")
    whole = f"daemon off; pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths} {text} }}"
    (tmp_path / "nginx.conf").write_text(whole)
    running = subprocess.Popen([str(NGINX), "-c", tmp_path / "nginx.conf", "-e", tmp_path / "errors"])
    verified = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(base_url=f"https://localhost:{secure}", verify=verified, trust_env=False) as client:
        wait_until(lambda: is_healthy(client), 20)
        yield client, plain
    running.terminate()
    running.wait()


def is_healthy(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/healthz").status_code == 200
    return False


def test_requests_and_events_come_through_with_the_token_only(proxy: tuple[httpx.Client, int]) -> None:
    client, _ = proxy
    assert client.get("/status").status_code == 401
    assert client.get("/status", headers=TOKEN).status_code == 200
    slo = {"app": "synthetic", "metric": "latency", "target": 400}
    assert client.post("/slo", json=slo, headers=TOKEN).json()["bound"] == 480
    with client.stream("GET", "/stream", headers=TOKEN) as events:
        first = next(line for line in events.iter_lines() if line.startswith("data:"))
    assert "synthetic" in first


def test_who_comes_without_tls_is_sent_to_it(proxy: tuple[httpx.Client, int]) -> None:
    _, plain = proxy
    answer = httpx.get(f"http://127.0.0.1:{plain}/status", trust_env=False)
    assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/status")
