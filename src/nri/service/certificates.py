"""TLS contexts for servers, from PEM files that may be replaced while the server runs."""

from __future__ import annotations

import logging
import os
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from nri.errors import ConfigError
from nri.files import read_regular

__all__ = ["CertificateFiles", "ServerCertificate", "certificate_names"]

_MAX_PEM_BYTES = 1 << 20


class CertificateFiles(NamedTuple):
    """The files of a server's certificate, and how errors name them.

    Attributes:
        source: where the paths are set, for example "command line".
        names: the names of the settings: of certificate, key and client CA.
        client_ca: certificates of CAs that have to sign the clients' certificates; "" if clients need no certificate.
    """

    certificate: str
    key: str
    source: str
    names: tuple[str, str, str]
    client_ca: str = ""


class ServerCertificate:
    """A server's TLS context. It is read again when a file changes. Thread-safe.

    The constructor raises ConfigError if the files cannot be used.

    Args:
        files: the paths of the files.
        log: receives reloads, and files that cannot be used.
        doubts: yields warnings about a usable certificate.
        minimum_version: the oldest protocol that is accepted.
    """

    def __init__(
        self,
        files: CertificateFiles,
        log: logging.Logger,
        doubts: Callable[[ssl.SSLContext, str, str], Iterator[str]] = lambda *_: iter(()),
        minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    ) -> None:
        self._files, self._log, self._doubts, self._minimum = files, log, doubts, minimum_version
        self._lock = threading.Lock()
        self._loaded_stamps = self._file_stamps()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context of the current files. If new files cannot be used, the previous context stays in use."""
        with self._lock:
            now = self._file_stamps()
            if now != self._loaded_stamps:
                self._loaded_stamps = now
                try:
                    self._context = self._load()
                    self._log.info("certificate reloaded")
                except (ConfigError, OSError) as error:
                    # After a lack of file descriptors the next connection tries again.
                    self._loaded_stamps = () if isinstance(error, OSError) else now
                    self._log.warning("the previous certificate stays in use: %s", error)
            return self._context

    def _file_stamps(self) -> tuple[Any, ...]:
        files = self._files
        paths = filter(None, (files.certificate, files.key, files.client_ca))
        try:
            return tuple((status.st_mtime_ns, status.st_ino) for status in map(os.stat, paths))
        except OSError:
            return ()

    def _load(self) -> ssl.SSLContext:
        """Read the files into a new TLS context. A context in use would lose its key if it were changed."""
        files = self._files
        cert_name, key_name, ca_name = files.names
        rows = [(cert_name, files.certificate, "certificate"), (key_name, files.key, "private key")]
        rows += [(ca_name, files.client_ca, "certificate")] if files.client_ca else []
        for name, path, what in rows:
            self._check(name, path, what)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        try:
            # Without a pass phrase here, OpenSSL would ask for one at the terminal if the key has just been replaced.
            context.load_cert_chain(files.certificate, files.key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = f"{files.key} is not the key of {files.certificate}"
                raise ConfigError(files.source, key_name, reason, "use two files that belong together") from None
            reason = f"{files.certificate} with {files.key} cannot be used: {error}"
            raise ConfigError(files.source, cert_name, reason) from None
        if files.client_ca:
            try:
                context.load_verify_locations(files.client_ca)
            except ssl.SSLError as error:
                raise ConfigError(files.source, ca_name, f"{files.client_ca} cannot be used: {error}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        if os.stat(files.key).st_mode & stat.S_IROTH:
            self._log.warning("%s can be read by all users of this machine: chmod o-r", files.key)
        for doubt in self._doubts(context, files.certificate, files.key):
            self._log.warning("%s", doubt)
        return context

    def _check(self, name: str, path: str, what: str) -> None:
        """Raise ConfigError if a file is not in PEM, or needs a pass phrase."""
        source = self._files.source
        try:
            text = read_regular(path, _MAX_PEM_BYTES).decode("ascii", "replace")
        except OSError as error:
            raise ConfigError(source, name, f"{path} cannot be read: {error.strerror or error}") from None
        if f"{what.upper()}-----" not in text:
            raise ConfigError(source, name, f"{path} does not contain a {what} in PEM")
        if "ENCRYPTED" in text:
            step = f"remove the pass phrase: openssl pkey -in {path} -out FILE"
            raise ConfigError(source, name, f"{path} is protected by a pass phrase", step)


def certificate_names(context: ssl.SSLContext, certificate: str) -> Any:
    """The names of a certificate that is valid today. Raises SSLError if a client would refuse the certificate."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client_context.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server, client):  # the last two up to TLS 1.2
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return (client.getpeercert() or {}).get("subjectAltName")
