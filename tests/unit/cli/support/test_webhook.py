"""Admission reviews over real TLS: answers, refusals, bounds, a certificate that changes, odd clients."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from nri.cli.support.webhook import MOST_BYTES, Webhook
from nri.errors import ConfigError, NriError
from tests.support.needs import need_tool
from tests.support.waiting import wait_for

REVIEW = json.dumps({"request": {"uid": "u", "resource": {"group": "", "version": "v1", "resource": "pods"},
                                 "object": {"spec": {"containers": [{"name": "app"}]}}}})  # fmt: skip


def certify(folder: Path, name: str = "localhost") -> None:
    """A certificate of its own, and its key."""
    openssl = need_tool("openssl")
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-keyout", "tls.key.new", "-out", "tls.crt.new", "-subj", f"/CN={name}"]
    words += ["-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([openssl, *words], cwd=folder, check=True, capture_output=True)
    for file in ("tls.key", "tls.crt"):
        (folder / f"{file}.new").rename(folder / file)


class Served:
    def __init__(self, folder: Path) -> None:
        certify(folder)
        self.folder = folder
        self.webhook = Webhook(0, str(folder / "tls.crt"), str(folder / "tls.key"))
        self.webhook.start()

    def connection(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.folder / "tls.crt"))
        return HTTPSConnection("localhost", self.webhook.server_port, context=context, timeout=20)

    def ask(self, body: str | None, kind: str = "application/json", method: str = "POST") -> tuple[int, Any]:
        connection = self.connection()
        connection.request(method, "/", body, {"Content-Type": kind} if kind else {})
        reply = connection.getresponse()
        found = reply.status, json.loads(reply.read())
        connection.close()
        return found


@pytest.fixture
def served(tmp_path: Path):
    made = Served(tmp_path)
    yield made
    made.webhook.stop()


def test_a_review_is_answered_and_a_connection_serves_several(served: Served) -> None:
    connection = served.connection()
    for _ in range(2):
        connection.request("POST", "/", REVIEW, {"Content-Type": "application/json"})
        found = json.loads(connection.getresponse().read())
        assert found["kind"] == "AdmissionReview" and found["response"]["patchType"] == "JSONPatch"
    connection.close()


@pytest.mark.parametrize(("method", "kind"), [("POST", "application/liveness-probe"), ("GET", "")])
def test_a_probe_is_answered_as_alive(served: Served, method: str, kind: str) -> None:
    status, found = served.ask(None, kind, method)
    assert status == 200 and found["response"]["status"]["status"] == "Success"


@pytest.mark.parametrize(
    ("body", "kind", "status", "said"),
    [
        ("{}", "application/json", 400, "no AdmissionReview"),
        ("{", "application/json", 400, ""),
        ("{}", "text/plain", 415, "expected application/json, not text/plain"),
    ],
)
def test_what_is_no_review_has_a_status_and_a_reason(
    served: Served, body: str, kind: str, status: int, said: str
) -> None:
    found = served.ask(body, kind)
    assert found[0] == status and said in found[1]["error"]


def test_what_is_no_pod_goes_on_and_is_told(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    status, found = served.ask('{"request": {"uid": "u", "resource": "nodes"}}')
    assert status == 200 and found["response"] == {"uid": "u", "allowed": True}
    assert "asked about nodes, which is no pod of v1" in caplog.text


@pytest.mark.parametrize("length", [str(MOST_BYTES + 1), "9" * 40, "0" * 12 + "9" * 12, "-1", "x", ""])
def test_a_body_without_a_length_that_may_be_is_not_read(served: Served, length: str) -> None:
    connection = served.connection()
    connection.putrequest("POST", "/")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_clients_that_speak_no_tls_or_nothing_keep_nobody_waiting(served: Served) -> None:
    silent = [socket.create_connection(("localhost", served.webhook.server_port)) for _ in range(4)]
    silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert served.ask(REVIEW)[0] == 200
    for each in silent:
        each.close()


def test_a_certificate_that_was_replaced_counts_and_a_bad_one_does_not(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    certify(served.folder)
    assert served.ask(REVIEW)[0] == 200  # it trusts the new one alone
    good = (served.folder / "tls.crt").read_text()
    (served.folder / "tls.crt").write_text("no certificate")
    context = ssl.create_default_context(cadata=good)
    with socket.create_connection(("localhost", served.webhook.server_port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost"):
            pass
    wait_for(lambda: "the certificate stays what it was" in caplog.text)


def test_what_it_cannot_start_with_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--cert-file: there is no file .*/tls.crt"):
        Webhook(0, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    (tmp_path / "tls.crt").write_text("x")
    (tmp_path / "tls.key").write_text("x")
    with pytest.raises(ConfigError, match="cannot be used"):
        Webhook(0, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    certify(tmp_path)
    first = Webhook(0, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    with pytest.raises(NriError, match="cannot listen on port"):
        Webhook(first.server_port, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    first.server_close()
