"""A server behind https: its certificate is checked against the authorities that are named."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eagle3_checks.measure.client import Client, RequestFailed
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.server import ServerStartError, attach

META = {"spec_verify_ct": 4, "completion_tokens": 8, "prompt_tokens": 8}
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the keys")


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def answer(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer({"version": "0.5.23"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"text": "x", "meta_info": META})


@pytest.fixture(autouse=True)
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("keys")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext"]
    words += ["subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def url(keys: tuple[Path, Path]) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*keys)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # refused handshakes
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_named_authority_is_trusted(
    url: str, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(keys[0]))
    with attach(url, timeout=5) as server:
        assert server.info()["version"] == "0.5.23"
    client = Client(url)
    answer = client.generate(Prompt(id="p", set="s", text="x"), max_new_tokens=8)
    client.close()
    assert answer.meta == META


def test_a_stranger_is_not(url: str) -> None:
    with (
        pytest.raises(ServerStartError, match="certificate is not trusted") as caught,
        attach(url, timeout=5),
    ):
        pytest.fail("the certificate is nobody's")
    assert "SSL_CERT_FILE" in str(caught.value)
    client = Client(url)
    with pytest.raises(RequestFailed, match="CERTIFICATE_VERIFY_FAILED"):
        client.generate(Prompt(id="p", set="s", text="x"), max_new_tokens=8)
    client.close()
