"""Encode and decode messages, and create requests.

Messages are protobuf's, of any package, or bytes if no type is given.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RpcError, RuntimeUnavailable
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The default timeout of a call, in seconds.
DEFAULT_TIMEOUT_S = 10.0
#: The default time for sending or receiving a message of a stream, in seconds.
WAIT_S = 10.0


def unreachable(path: str, error: OSError) -> RuntimeUnavailable:
    """The error for a socket to which a client cannot connect."""
    hint = "Check its owner and mode" if isinstance(error, PermissionError) else "Is its server running?"
    return RuntimeUnavailable(path, error.strerror or str(error), hint)


def check_streaming(streaming: object) -> None:
    """Raise LocalProtocolError for an invalid value of `streaming`."""
    if streaming not in ("client", "server", "both"):
        who = '"client", "server" or "both"'
        raise LocalProtocolError(f"streaming must be {who}, not {streaming!r}")


def encoded(message: Any) -> bytes:
    """Encode a message. Bytes are returned unchanged. Raises TypeError for any other type."""
    if isinstance(message, bytes):
        return message
    serialize = getattr(message, "SerializeToString", None)
    if serialize is None or isinstance(message, type):
        type_name = f"the class {message.__name__}" if isinstance(message, type) else type(message).__name__
        raise TypeError(f"a request must be a protobuf message or bytes, not {type_name}")
    data: bytes = serialize()
    return data


def decoded(kind: Any, payload: bytes) -> Any:
    """Decode a message of a class. With the class None, return the bytes. Raises RpcError(13) if it is invalid."""
    if kind is None:
        return payload
    try:
        return kind.FromString(payload)
    except Exception as error:  # noqa: BLE001 - DecodeError has no public home
        raise RpcError(Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}") from None


def request_of(
    service: str, method: str, message: Any, timeout_s: float | None, metadata: Iterable[tuple[str, str]]
) -> Request:
    """Create a client's request. `message` None is an empty payload. Keys of metadata are sent in lower case."""
    payload = b"" if message is None else encoded(message)
    timeout_ns = 0 if timeout_s is None else max(1, int(timeout_s * 1e9))
    return Request(service, method, payload, timeout_ns, [(key.lower(), value) for key, value in metadata])
