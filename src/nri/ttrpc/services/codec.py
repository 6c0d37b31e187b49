"""Messages as bytes and back, and the requests that carry them.

Messages are protobuf's, of any package, or bytes where no type is given.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RpcError, RuntimeUnavailable
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["DEFAULT_TIMEOUT_S", "WAIT_S", "check_streaming", "decoded", "encoded", "request_of", "unreachable"]

#: The deadline of a call that names none, in seconds.
DEFAULT_TIMEOUT_S = 10.0
#: How long one message of a stream may take to be sent, or to come, in seconds, where nothing else is said.
WAIT_S = 10.0


def unreachable(path: str, error: OSError) -> RuntimeUnavailable:
    """The error for a socket that cannot be connected to."""
    hint = "Its owner and mode say who may" if isinstance(error, PermissionError) else "Is its server running?"
    return RuntimeUnavailable(path, error.strerror or str(error), hint)


def check_streaming(streaming: object) -> None:
    """LocalProtocolError unless it says who streams."""
    if streaming not in ("client", "server", "both"):
        who = '"client", "server" or "both"'
        raise LocalProtocolError(f"streaming says who sends many messages: {who}, not {streaming!r}")


def encoded(message: Any) -> bytes:
    """A message's bytes; bytes as they are. TypeError for anything else."""
    if isinstance(message, bytes):
        return message
    serialize = getattr(message, "SerializeToString", None)
    if serialize is None or isinstance(message, type):
        given = f"the class {message.__name__}" if isinstance(message, type) else type(message).__name__
        raise TypeError(f"a request is a protobuf message or bytes, not {given}")
    data: bytes = serialize()
    return data


def decoded(kind: Any, payload: bytes) -> Any:
    """The message of a class; the bytes themselves for the class None. RpcError(13) if they are no such message."""
    if kind is None:
        return payload
    try:
        return kind.FromString(payload)
    except Exception as error:  # noqa: BLE001 - DecodeError has no public home
        raise RpcError(Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}") from None


def request_of(
    service: str, method: str, message: Any, timeout_s: float | None, metadata: Iterable[tuple[str, str]]
) -> Request:
    """A request as clients send it; `message` None is an empty payload. Keys go in lower case."""
    payload = b"" if message is None else encoded(message)
    timeout_ns = 0 if timeout_s is None else max(1, int(timeout_s * 1e9))
    return Request(service, method, payload, timeout_ns, [(key.lower(), value) for key, value in metadata])
