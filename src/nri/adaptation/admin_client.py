"""A client of a runtime's admin socket, whose errors name the next step. `nri.adaptation.admin` is the other end."""

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

__all__ = ["AdminClient"]

_ANSWER_S = 5.0
_OPTION = "name another with --admin-socket"


class AdminClient:
    """Asks the admin socket of one runtime.

    Args:
        path: the socket; None for the default one.
        timeout_s: how long the runtime has to answer, in seconds; None for 5.
    """

    def __init__(self, path: str | None, timeout_s: float | None = None) -> None:
        self.path = path or admin.DEFAULT_SOCKET
        self.timeout_s = timeout_s or _ANSWER_S

    def ask(self, method: str, request: dict[str, Any], step: str = "") -> dict[str, Any]:
        """The reply to a request. NriError without one; `step` is a further step for its text."""
        with self.explained(step):
            return admin.ask(self.path, method, request, self.timeout_s)

    def follow(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The readings of the runtime's events as they come. NriError without an answer."""
        with self.explained():
            yield from admin.follow(self.path, request)

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Read a reply in the block: ProgramUnreachable if it does not have the tables of our admin socket."""
        with self.explained():
            try:
                yield
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise RemoteProtocolError(f"it has no tables as ours: {error!r}") from error

    @contextmanager
    def explained(self, step: str = "") -> Iterator[None]:
        """Raise the errors of the block with the next step in their text; `step` is a further one."""
        further = step and f"; {step}"
        option = f"{_OPTION}{further}"
        advice = f"only runtimes that are built on nri have an admin socket, where admin_socket is set; {option}"
        try:
            yield
        except ProgramUnreachable:
            raise
        except RuntimeUnavailable as error:
            raise ProgramUnreachable(self.path, self._why_unavailable(error.reason, option, advice)) from None
        except ConnectionClosed:  # a runtime's socket for plugins speaks otherwise
            reason = "the other side has closed the connection: perhaps it is no admin socket"
            raise ProgramUnreachable(self.path, f"{self.path}: {reason}; {advice}") from None
        except DeadlineExceeded as error:
            reason = f"{self.path} does not answer: {error}; perhaps it is no admin socket"
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
            return f"cannot connect to {self.path}: permission denied. Run it as root"
        if "connection refused" in reason.lower():
            advice = f"nobody listens there any more; start the runtime that did, or {option}"
            if not Path(self.path).is_socket():
                advice = f"it is no socket; {option}"
            return f"cannot connect to {self.path}: {reason}: {advice}"
        return f"cannot connect to {self.path}: {reason}; {advice}"
