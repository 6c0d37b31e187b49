"""A client of a runtime's admin socket, whose errors name the next step."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.adaptation import admin
from nri.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriError,
    ProgramUnreachable,
    ProtocolError,
    RemoteProtocolError,
    RpcError,
    RuntimeUnavailable,
)
from nri.ttrpc import Code

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWER_S = 5.0
_OPTION = "choose another socket with --admin-socket"


class AdminClient:
    """Client of the admin socket of one runtime.

    Args:
        path: the socket; None for the default socket.
        timeout_s: how long the runtime may take to answer, in seconds; None for 5 s.
    """

    def __init__(self, path: str | None, timeout_s: float | None = None) -> None:
        self.path = path or admin.DEFAULT_SOCKET
        self.timeout_s = timeout_s or _ANSWER_S

    def ask(self, method: str, request: dict[str, Any], step: str = "") -> dict[str, Any]:
        """Return the reply to a request. Raises NriError, with `step` as an additional next step in its text."""
        with self.explained(step):
            return admin.ask(self.path, method, request, self.timeout_s)

    def follow(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the readings of the runtime's events. Raises NriError if the runtime does not answer."""
        with self.explained():
            yield from admin.follow(self.path, request)

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Read a reply in the block. Raises ProgramUnreachable if the reply lacks expected fields."""
        with self.explained():
            try:
                yield
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise RemoteProtocolError(f"the reply lacks expected fields: {error!r}") from error

    @contextmanager
    def explained(self, step: str = "") -> Iterator[None]:
        """Add the next step to the text of the block's errors; `step` is an additional step."""
        further = step and f"; {step}"
        option = f"{_OPTION}{further}"
        advice = f"an admin socket exists only in a runtime that is built on nri and sets admin_socket; {option}"
        try:
            yield
        except ProgramUnreachable:
            raise
        except RuntimeUnavailable as error:
            raise ProgramUnreachable(self.path, self._why_unavailable(error.reason, option, advice)) from None
        except ConnectionClosed:  # a runtime's plugin socket uses another protocol
            reason = "the server closed the connection; it may not be an admin socket"
            raise ProgramUnreachable(self.path, f"{self.path}: {reason}; {advice}") from None
        except DeadlineExceeded as error:
            reason = f"{self.path} did not answer: {error}; it may not be an admin socket"
            raise ProgramUnreachable(self.path, f"{reason}; {advice}") from None
        except ProtocolError as error:
            raise ProgramUnreachable(self.path, f"{self.path} is not an admin socket: {error}; {advice}") from None
        except RpcError as error:
            if error.code == Code.UNIMPLEMENTED:
                raise ProgramUnreachable(self.path, f"{self.path} is not an admin socket; {advice}") from None
            hint = f". try: nri pod ps{further}" if error.code == Code.NOT_FOUND else ""
            raise NriError(error.message + hint) from None

    def _why_unavailable(self, reason: str, option: str, advice: str) -> str:
        if "permission denied" in reason.lower():
            return f"cannot connect to {self.path}: permission denied. Run this command as root"
        if "connection refused" in reason.lower():
            advice = f"no process listens on the socket; start the runtime, or {option}"
            if not Path(self.path).is_socket():
                advice = f"not a socket; {option}"
            return f"cannot connect to {self.path}: {reason}: {advice}"
        return f"cannot connect to {self.path}: {reason}; {advice}"
