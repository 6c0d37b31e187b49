"""Admission reviews over real TLS: replies, errors, limits, changed certificates and faulty clients."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nri.errors import ConfigError, NriError
from nri.plugins.resource_annotator import webhook
from nri.plugins.resource_annotator.webhook import MAX_BODY_BYTES, MAX_REQUESTS, Webhook
from tests.support.needs import need_tool
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for

REVIEW = json.dumps({"request": {"uid": "u", "resource": {"group": "", "version": "v1", "resource": "pods"},
                                 "object": {"spec": {"containers": [{"name": "app"}]}}}})  # fmt: skip


def certify(folder: Path, name: str = "localhost") -> None:
    """Write a self-signed certificate and its key."""
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

    def connection(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.folder / "tls.crt"))
        return HTTPSConnection("localhost", self.webhook.port, context=context, timeout=20)

    def ask(self, body: str | None, kind: str = "application/json", method: str = "POST") -> tuple[int, Any]:
        connection = self.connection()
        connection.request(method, "/", body, {"Content-Type": kind} if kind else {})
        reply = connection.getresponse()
        rows = reply.status, json.loads(reply.read())
        connection.close()
        return rows


@pytest.fixture
def served(tmp_path: Path):
    answer = Served(tmp_path)
    yield answer
    answer.webhook.stop()


def test_reviews_of_one_client_are_answered_one_after_the_other(served: Served) -> None:
    connection = served.connection()
    for _ in range(2):
        connection.request("POST", "/", REVIEW, {"Content-Type": "application/json"})
        document = json.loads(connection.getresponse().read())
        assert document["kind"] == "AdmissionReview" and document["response"]["patchType"] == "JSONPatch"
    connection.close()


@pytest.mark.parametrize(("version", "served_with"), [("TLSv1_2", "TLSv1.2"), ("TLSv1_1", "")])
def test_tls_1_2_is_accepted_and_nothing_older(served: Served, version: str, served_with: str) -> None:
    context = ssl.create_default_context(cafile=str(served.folder / "tls.crt"))
    context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the version, and no cipher, that is refused
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    connection = HTTPSConnection("localhost", served.webhook.port, context=context, timeout=20)
    if not served_with:
        with pytest.raises(ssl.SSLError):
            connection.connect()
        return
    connection.request("POST", "/", REVIEW, {"Content-Type": "application/json"})
    assert connection.sock.version() == served_with
    assert json.loads(connection.getresponse().read())["response"]["patchType"] == "JSONPatch"
    connection.close()


@pytest.mark.parametrize(("method", "kind"), [("POST", "application/liveness-probe"), ("GET", "")])
def test_a_probe_is_answered_as_alive(served: Served, method: str, kind: str) -> None:
    status, rows = served.ask(None, kind, method)
    assert status == 200 and rows["response"]["status"]["status"] == "Success"


@pytest.mark.parametrize(
    ("body", "kind", "status", "message"),
    [
        ("{}", "application/json", 400, "not an AdmissionReview"),
        ("{", "application/json", 400, ""),
        ("{}", "application/json; charset=utf-8", 400, "not an AdmissionReview"),
        ("{}", "text/plain", 415, "Content-Type is text/plain; it must be application/json"),
    ],
)
def test_an_invalid_review_gets_a_status_and_a_reason(
    served: Served, body: str, kind: str, status: int, message: str
) -> None:
    rows = served.ask(body, kind)
    assert rows[0] == status and message in rows[1]["error"]


def test_an_object_that_is_not_a_pod_is_admitted_with_a_warning(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    status, rows = served.ask('{"request": {"uid": "u", "resource": "nodes"}}')
    assert status == 200 and rows["response"] == {"uid": "u", "allowed": True}
    assert 'the request is for "nodes", not for pods of v1' in caplog.text


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "9" * 40, "0" * 12 + "9" * 12, "-1", "x", ""])
def test_a_body_without_an_allowed_length_is_not_read(served: Served, length: str) -> None:
    connection = served.connection()
    connection.putrequest("POST", "/")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_clients_without_tls_do_not_block_others(served: Served) -> None:
    silent = [socket.create_connection(("localhost", served.webhook.port)) for _ in range(4)]
    silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert served.ask(REVIEW)[0] == 200
    for client in silent:
        client.close()


def test_connections_without_a_thread_do_not_block_later_ones(served: Served) -> None:
    with no_threads():
        for _ in range(MAX_REQUESTS + 1):
            with socket.create_connection(("localhost", served.webhook.port), 20) as sock:
                sock.sendall(b"x")
                with suppress(ConnectionResetError):
                    assert sock.recv(1) == b"", "it is closed"
    assert served.ask(None, method="GET")[0] == 200


def test_a_replaced_certificate_is_used_and_an_invalid_one_is_not(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    certify(served.folder)
    assert served.ask(REVIEW)[0] == 200  # it trusts the new one alone
    good = (served.folder / "tls.crt").read_text()
    (served.folder / "tls.crt").write_text("no certificate")
    context = ssl.create_default_context(cadata=good)
    with socket.create_connection(("localhost", served.webhook.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost"):
            pass
    wait_for(lambda: "the previous certificate stays in use" in caplog.text)


def test_a_new_certificate_is_used_only_once_its_key_is_replaced_too(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old, folder = (served.folder / "tls.crt").read_text(), served.folder
    key = (folder / "tls.key").read_text()
    certify(folder)
    new_key = (folder / "tls.key").read_text()
    (folder / "tls.key").write_text(key)
    trusting = ssl.create_default_context(cadata=old)
    connection = HTTPSConnection("localhost", served.webhook.port, context=trusting, timeout=20)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    assert "tls.key is not the key of" in caplog.text
    (folder / "tls.key").write_text(new_key)
    assert served.ask(REVIEW)[0] == 200


def test_a_client_that_sends_byte_by_byte_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "DEADLINE_S", 0.5)
    served = Served(tmp_path)
    for line in ("X: ", "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"):
        connection = served.connection()
        connection.connect()
        connection.sock.sendall(line.encode())

        def refused(connection: HTTPSConnection = connection) -> bool:
            try:
                connection.sock.sendall(b"x")
            except OSError:
                return True
            return False

        wait_for(refused)
        connection.close()
    served.webhook.stop()


def test_a_client_that_refuses_the_certificate_is_logged_with_a_hint(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        HTTPSConnection("localhost", served.webhook.port, context=ssl.create_default_context()).connect()
    wait_for(lambda: "refuses the certificate" in caplog.text)
    assert "UNKNOWN_CA" in caplog.text and "caBundle" in caplog.text


def _expired(folder: Path) -> None:
    (folder / "ca.conf").write_text(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=p\nx509_extensions=x\n"
        "[p]\ncommonName=supplied\n[x]\nsubjectAltName=DNS:localhost\n"
    )
    (folder / "index").touch()
    request = ["req", "-new", "-key", "tls.key", "-subj", "/CN=localhost", "-out", "csr"]
    days = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"]
    sign = ["ca", "-batch", "-selfsign", "-notext", "-config", "ca.conf", "-keyfile", "tls.key", "-rand_serial", *days]
    for words in (request, [*sign, "-in", "csr", "-out", "tls.crt"]):
        subprocess.run([need_tool("openssl"), *words], cwd=folder, check=True, capture_output=True)


def _without_names(folder: Path) -> None:
    words = ["req", "-x509", "-key", "tls.key", "-days", "2", "-subj", "/CN=localhost", "-out", "tls.crt"]
    subprocess.run([need_tool("openssl"), *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_expired, "tls.crt: API servers will refuse it: certificate has expired; renew it"),
        (_without_names, "tls.crt has no subjectAltName, the only name that API servers check"),
        (lambda folder: (folder / "tls.key").chmod(0o644), "tls.key can be read by all users of this machine"),
        (lambda folder: None, ""),
    ],
)
def test_invalid_certificates_and_readable_keys_are_logged_at_the_start(
    change: Callable[[Path], None], message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certify(tmp_path)
    change(tmp_path)
    Webhook(0, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")).stop()
    assert (message in caplog.text) if message else not caplog.records


def test_invalid_start_settings_are_errors(tmp_path: Path) -> None:
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def error() -> str:
        with pytest.raises(ConfigError) as caught:
            Webhook(0, str(crt), str(key))
        return str(caught.value)

    assert error() == f"command line: --cert-file: {crt} cannot be read: No such file or directory"
    certify(tmp_path)
    good = key.read_text()
    key.write_text(crt.read_text())
    assert error() == f"command line: --key-file: {key} does not contain a private key in PEM"
    certify(tmp_path)
    other, text = key.read_text(), crt.read_text()
    key.write_text(good)
    assert f"--key-file: {key} is not the key of {crt} (use two files" in error()
    key.write_text(other)
    crt.write_text(text.replace("MII", "XXX"))
    assert f"--cert-file: {crt} with {key} cannot be used: " in error()
    crt.write_text(text)
    words = ["pkey", "-in", str(key), "-aes128", "-passout", "pass:x", "-out", f"{key}.new"]
    subprocess.run([need_tool("openssl"), *words], check=True, capture_output=True)
    (tmp_path / "tls.key.new").rename(key)
    assert f"--key-file: {key} is protected by a pass phrase" in error()
    key.write_text(other)
    first = Webhook(0, str(crt), str(key))
    with pytest.raises(NriError, match=r"cannot listen on .*: another process listens there"):
        Webhook(first.port, str(crt), str(key))
    first.stop()


def test_messages_about_clients_are_limited_per_minute(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    for second, count in ((60.0, 70), (120.0, 1)):
        monkeypatch.setattr(webhook, "time", SimpleNamespace(monotonic=lambda second=second: second))
        for _ in range(count):
            webhook.log_tls_error("10.0.0.7", OSError("a reason"))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == webhook.MAX_CLIENT_MESSAGES_PER_MINUTE + 1
    assert messages[-1].endswith("a reason (10 messages about clients were dropped)")
