"""The HTTP client for the API server. lightkube creates the client from a kubeconfig or a service account.

Only this module imports lightkube, and only when a client is created. After an error, the kubeconfig or the files of
the service account are read again, at most every 30 seconds, because tokens and certificates are rotated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nri.errors import ConfigError, NriError
from nri.kube.decoder import INSTALL
from nri.user_agent import user_agent

__all__ = [
    "ACCOUNT",
    "INSTALL",
    "READ_S",
    "SharedClient",
    "make_client",
    "request_errors",
    "request_timeouts",
    "silence_error",
]

#: The folder of a pod's service account.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: The timeout of a read, in seconds.
READ_S = 15.0
_CONNECT_S = 5.0
#: The minimum time between two readings of the credentials' files, in seconds.
_RENEW_S = 30.0


def make_client(path: str, context: str, account: str) -> Any:
    """Make an HTTP client with address, certificates and credentials.

    Raises ConfigError if the files cannot be used, and NriError if the extra `agent` is not installed.

    Args:
        path: the path of the kubeconfig, or "" for the service account.
        context: the name of a context, or "" for the current context.
        account: the folder of the service account.
    """
    try:
        from lightkube.config import client_adapter, kubeconfig
    except ImportError:
        raise NriError(f"lightkube is required for the apiserver, but not installed. Install: {INSTALL}") from None
    logger = logging.getLogger("httpx2")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)  # it would log each request
    source = path or account
    try:
        if path:
            config = kubeconfig.KubeConfig.from_file(path).get(context or None)
        else:
            config = kubeconfig.KubeConfig.from_service_account(account).get()
        if config is None:
            raise NriError("context not found")
        client = client_adapter.Client(config, client_adapter.ConnectionParams(timeout=request_timeouts(READ_S)))
        client.headers["User-Agent"] = user_agent()
        return client
    except KeyError as error:
        hint = "" if path else "outside of a pod, specify a kubeconfig"
        raise ConfigError(source, "", f"{error} is missing", hint) from None
    except Exception as error:  # noqa: BLE001  YAML, TLS and file errors have no common base
        hint = "" if path else "outside of a pod, specify a kubeconfig"
        raise ConfigError(source, "", str(error) or type(error).__name__, hint) from None


def request_timeouts(read_s: float) -> Any:
    """Return the timeouts of a request, in the HTTP library's type, with `read_s` for each read."""
    import httpx2

    return httpx2.Timeout(READ_S, connect=_CONNECT_S, read=read_s)


def request_errors() -> tuple[type[Exception], ...]:
    """Return the types of exceptions that a request may raise."""
    import httpx2
    from lightkube.core import exceptions

    return httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, exceptions.ConfigError, OSError


def silence_error() -> type[Exception]:
    """Return the type of the exception that a read raises if no data arrives in time."""
    import httpx2

    return httpx2.ReadTimeout


class SharedClient:
    """A thread-safe HTTP client for several users. After an error, a new client replaces the old client.

    Args:
        make: creates a client; it reads the files again, because they may have changed.
        clock: returns monotonic seconds.
    """

    def __init__(self, make: Callable[[], Any], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._current = _CountedClient(make())
        self._last_attempt = clock()  # also counts an attempt that failed
        self._doubted = False

    @property
    def address(self) -> str:
        """The API server's URL."""
        return str(self._current.client.base_url)

    def doubt(self) -> None:
        """Record an error of the client, so that a later `borrow` replaces the client.

        The client is not replaced if the last attempt to replace a client was less than 30 seconds ago.
        """
        self._doubted = True

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """Lend the client for the length of a block. A replaced client is closed after its last use."""
        with self._lock:
            if self._current.retired or (self._doubted and self._clock() - self._last_attempt > _RENEW_S):
                self._last_attempt = self._clock()
                client = _CountedClient(self._make())
                self._current.retire()
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
            self._current.retire()


class _CountedClient:
    """A client with the number of its users. A retired client gets no new users."""

    __slots__ = ("client", "retired", "users")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.users = 0
        self.retired = False

    def retire(self) -> None:
        if not self.retired:
            self.retired = True
            self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.retired and not self.users:
            self.client.close()
