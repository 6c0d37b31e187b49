"""The HTTP client of an API server, which lightkube creates from a kubeconfig or a service account.

Only this module imports lightkube, and only when it is used. After an error the files are read again, at most every
half minute, because their tokens and certificates are rotated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nri.errors import ConfigError, NriError
from nri.kube.decoder import INSTALL

__all__ = ["ACCOUNT", "INSTALL", "READ_S", "SharedClient", "failures", "make_client", "patience"]

#: The folder of a pod's service account.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: The timeout of a read, in seconds.
READ_S = 15.0
_CONNECT_S = 5.0
#: The minimum interval of reading the files of credentials, in seconds.
_RENEW_S = 30.0


def make_client(path: str, context: str, account: str) -> Any:
    """Make an HTTP client with address, certificates and credentials.

    Raises ConfigError if the files cannot be used, and NriError without the extra `agent`.

    Args:
        path: the path of the kubeconfig, or "" for the service account.
        context: the name of a context, or "" for the current context.
        account: the folder of the service account.
    """
    try:
        from lightkube.config import client_adapter, kubeconfig
    except ImportError:
        raise NriError(f"lightkube is required for the apiserver, but not installed. Install: {INSTALL}") from None
    library = logging.getLogger("httpx2")
    if library.level == logging.NOTSET:
        library.setLevel(logging.WARNING)  # it would log each request
    source = path or account
    try:
        if path:
            config = kubeconfig.KubeConfig.from_file(path).get(context or None)
        else:
            config = kubeconfig.KubeConfig.from_service_account(account).get()
        if config is None:
            raise NriError("context not found")
        return client_adapter.Client(config, client_adapter.ConnectionParams(timeout=patience(READ_S)))
    except KeyError as error:
        hint = "" if path else "outside of a pod, name a kubeconfig"
        raise ConfigError(source, "", f"{error} is missing", hint) from None
    except Exception as error:  # noqa: BLE001  YAML, TLS and file errors have no common base
        hint = "" if path else "outside of a pod, name a kubeconfig"
        raise ConfigError(source, "", str(error) or type(error).__name__, hint) from None


def patience(read_s: float) -> Any:
    """Return the library's timeouts, with `read_s` for each read."""
    import httpx2

    return httpx2.Timeout(READ_S, connect=_CONNECT_S, read=read_s)


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of requests."""
    import httpx2
    from lightkube.core import exceptions

    return httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, exceptions.ConfigError, OSError


class SharedClient:
    """A shared HTTP client, which is replaced after an error. Thread-safe.

    Args:
        make: creates a client, from files that may have changed.
        clock: monotonic seconds.
    """

    def __init__(self, make: Callable[[], Any], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._current = _CountedClient(make())
        self._made = clock()
        self._doubted = False

    @property
    def address(self) -> str:
        """The API server's URL."""
        return str(self._current.client.base_url)

    def doubt(self) -> None:
        """Record an error of the client: a later `borrow` creates a new one, unless that was done recently."""
        self._doubted = True

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """Lend the client. A replaced client is closed after its last use."""
        with self._lock:
            if self._current.replaced or (self._doubted and self._clock() - self._made > _RENEW_S):
                self._made = self._clock()
                client = _CountedClient(self._make())
                self._current.replace()
                self._current, self._doubted = client, False
            current = self._current
            current.users += 1
        try:
            yield current.client
        finally:
            with self._lock:
                current.users -= 1
                current.close_if_unused()

    def close(self) -> None:
        """Close the client after its last use."""
        with self._lock:
            self._current.replace()


class _CountedClient:
    """A client with the number of its users, and whether it was replaced or closed."""

    __slots__ = ("client", "replaced", "users")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.users = 0
        self.replaced = False

    def replace(self) -> None:
        if not self.replaced:
            self.replaced = True
            self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.replaced and not self.users:
            self.client.close()
