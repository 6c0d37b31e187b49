"""`nri resource-annotator` as a program: its settings, what it says, and its end."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path

from tests.unit.cli.conftest import command, environment
from tests.unit.cli.support.test_webhook import certify


def test_it_serves_until_a_signal_with_settings_of_the_environment(folder: Path) -> None:
    certify(folder)
    settings = {"PORT": "0", "CERT_FILE": str(folder / "tls.crt"), "KEY_FILE": str(folder / "tls.key")}
    own = {f"RESOURCE_ANNOTATOR_{name}": value for name, value in settings.items()}
    with subprocess.Popen(
        command("resource-annotator"), env=environment(**own), stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        try:
            assert "ready: port " in program.stderr.readline()
            program.send_signal(signal.SIGTERM)
            assert program.wait(30) == 0
        finally:
            program.kill()


def test_of_a_good_certificate_it_has_no_doubts_where_the_machine_allows_tls_1_2_alone(folder: Path) -> None:
    certify(folder)
    limit = folder / "openssl.cnf"
    limit.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n")
    words = ["--port", "0", "--cert-file", str(folder / "tls.crt"), "--key-file", str(folder / "tls.key")]
    with subprocess.Popen(
        command("resource-annotator", *words),
        env=environment(OPENSSL_CONF=str(limit)),
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        try:
            said = program.stderr.readline()
            assert "ready: port " in said, said
            port = int(said.rpartition("ready: port ")[2].split()[0].rstrip(";,."))
            context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
            with (
                socket.create_connection(("localhost", port), 20) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                assert secured.version() == "TLSv1.2"
        finally:
            program.kill()


def test_without_a_certificate_it_says_which_file_is_missing(nri, folder: Path) -> None:
    done = nri("resource-annotator", "--cert-file", str(folder / "none"), "--key-file", os.devnull)
    assert done.returncode == 2 and f"--cert-file: {folder / 'none'} cannot be read: No such" in done.stderr
