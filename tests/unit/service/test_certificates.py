"""A server's certificate in files that may be replaced."""

from __future__ import annotations

import logging
import ssl
import subprocess
from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.service import certificates
from nri.service.certificates import CertificateFiles, ServerCertificate
from tests.support.http_server import make_certificate

NAMES = ("cert", "key", "ca")
_log = logging.getLogger("certificates")


def files(certificate: Path, key: Path | None = None, ca: Path | None = None) -> CertificateFiles:
    return CertificateFiles(str(certificate), str(key or certificate), "file.toml", NAMES, str(ca or ""))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path)


def test_the_context_has_the_minimum_version_and_asks_for_no_client_certificate(certificate: Path) -> None:
    context = ServerCertificate(files(certificate), _log, minimum_version=ssl.TLSVersion.TLSv1_3).context()
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_3, ssl.CERT_NONE)


def test_with_a_client_ca_clients_need_a_certificate(certificate: Path) -> None:
    assert ServerCertificate(files(certificate, ca=certificate), _log).context().verify_mode is ssl.CERT_REQUIRED


def test_replaced_files_count_and_unusable_ones_do_not(
    certificate: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ServerCertificate(files(certificate), _log)
    first = server.context()
    assert server.context() is first
    (tmp_path / "new").mkdir()
    certificate.write_text(make_certificate(tmp_path / "new").read_text())
    second = server.context()
    assert second is not first
    certificate.write_text("none")
    assert server.context() is second
    assert "the previous certificate stays in use: file.toml: cert" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ca", "no PEM", "file.toml: ca: .* does not contain a certificate"),
        ("ca", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "file.toml: ca: .* cannot be used"),
        ("key", "-----BEGIN ENCRYPTED PRIVATE KEY-----", "file.toml: key: .* pass phrase"),
        ("key", None, "file.toml: key: .* cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_setting(
    certificate: Path, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    path = tmp_path / "other.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        ServerCertificate(files(certificate, **{name: path}), _log)


def test_a_key_that_gets_a_pass_phrase_after_its_check_is_not_asked_for_at_the_terminal(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, key, argv = certificate.read_text(), tmp_path / "key.pem", ["openssl", "pkey", "-aes128", "-passout"]
    encrypted = subprocess.run([*argv, "pass:abcd", "-in", str(certificate)], check=True, capture_output=True).stdout
    key.write_text(text)

    def read(path: str, most_bytes: int) -> bytes:
        content = Path(path).read_bytes()
        if path == str(key):
            key.write_bytes(encrypted)
        return content

    monkeypatch.setattr(certificates, "read_regular", read)
    with pytest.raises(ConfigError, match=r"file.toml: cert: .* cannot be used"):
        ServerCertificate(files(certificate, key=key), _log)
