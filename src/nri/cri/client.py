"""A client of a runtime's CRI socket, for any runtime that serves CRI v1. Requires the extra `cri`.

with CriClient("/run/containerd/containerd.sock") as cri:
reply = cri.call("ListContainers", pb.ListContainersRequest())
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from nri.config.runtimes.registry import RUNTIMES
from nri.cri.pb import api_pb2 as pb
from nri.errors import DeadlineExceeded, NriError, RemoteProtocolError, RpcError, RuntimeUnavailable
from nri.text import cut, escape
from nri.user_agent import grpc_options
from nri.wire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

M = TypeVar("M", bound=Message)

#: The command that installs grpcio. This project is not on a package index, so its bare name would install another one.
INSTALL = "pip install '.[engine]', in a checkout of nri"

#: The metadata key under which PullImage of nri's engine gets an archive. A kubelet never sends it, for any pod.
ARCHIVE_KEY = "nri-archive-bin"
#: The metadata key that makes UpdateRuntimeConfig of nri's engine read its settings again.
RELOAD_KEY = "nri-reload-bin"
CALL_TIMEOUT_S = 10.0
#: gRPC's number of the status INTERNAL.
_INTERNAL = 13
#: Maximum number of entries of an answer: as a message, an empty entry takes about a hundred times its encoded size.
_MAX_ENTRIES = 1 << 16
#: The entries of shorter answers are not counted.
_COUNTED_BYTES = 1 << 18
#: Timeout of a socket's answer to HTTP/2's greeting with empty settings, in seconds.
GREETING_TIMEOUT_S = 2.0
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
#: gRPC's message when the client's deadline ends a call. If the runtime itself answers with this status, its message
#: differs and is usually about a plugin that was late or has disconnected.
_OUR_TIMER = "Deadline Exceeded"
#: The beginnings of gRPC's messages about a broken connection.
_BROKEN = ("failed to connect", "Stream removed", "Socket closed", "recvmsg", "sendmsg", "Connection", "Broken pipe",
           "GOAWAY", "Endpoint", "Received")  # fmt: skip
#: The sockets of runtimes, in search order; nri's engine comes first.
SOCKETS = ("/run/nri-engine/engine.sock", *(path for row in RUNTIMES for path in row.cri_sockets))
_AS_ROOT = "Run this command as root"
#: The option that names the socket, unless a caller has another one.
_OPTION = "--cri-socket"


def find_socket(option: str = _OPTION) -> str:
    """The first CRI socket of `SOCKETS` that exists on this machine. Raises RuntimeUnavailable if none exists.

    `option` is the option with which users name another socket, for the error.
    """
    closed = ""
    for path in SOCKETS:
        try:
            os.stat(path)
        except PermissionError:  # only root may enter its folder, for example our engine's
            closed = closed or path
        except OSError:
            continue
        else:
            return path
    if closed:
        raise RuntimeUnavailable(closed, "permission denied", _AS_ROOT)
    raise RuntimeUnavailable(SOCKETS[0], f"no such file, nor any of {', '.join(SOCKETS[1:4])}", _hint(option))


def decode_answer(kind: type[M], answer: bytes) -> M:
    """Decode an answer of the runtime. Raises RpcError if it cannot be decoded, or has too many entries."""
    what = f"{kind.DESCRIPTOR.name.removesuffix('Response')}: the runtime's answer"
    try:
        if len(answer) > _COUNTED_BYTES and any(number >= _MAX_ENTRIES for number, _ in enumerate(iter_fields(answer))):
            raise RpcError(_INTERNAL, f"{what} has more than {_MAX_ENTRIES} entries")
        return kind.FromString(answer)
    except (DecodeError, RemoteProtocolError) as error:
        raise RpcError(_INTERNAL, f"{what} cannot be read: {error}") from None


class CriClient:
    """A connection to a CRI socket.

    Raises NriError if grpcio is not installed, and RuntimeUnavailable if no program listens on the socket.

    Args:
        path: the path of the socket, with or without ``unix://``, or "" for the result of `find_socket`.
        timeout_s: the default deadline of a call, in seconds.
        option: the option or settings key with which users name another socket, for errors.
    """

    def __init__(self, path: str, timeout_s: float = CALL_TIMEOUT_S, option: str = _OPTION) -> None:
        try:
            import grpc
        except ImportError:
            raise NriError(f"the CRI requires grpcio, which is not installed. Install the extra: {INSTALL}") from None
        self.path = (path or find_socket(option)).removeprefix("unix://")
        self.timeout_s = timeout_s
        self._hint = _hint(option)
        _try_connection(self.path, self._hint)
        self._grpc = grpc
        options = [*grpc_options(), ("grpc.max_receive_message_length", 16 << 20)]
        self._channel = grpc.insecure_channel(f"unix://{os.path.abspath(self.path)}", options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def call(
        self, method: str, request: Message, timeout_s: float | None = None, metadata: Sequence[tuple[str, bytes]] = ()
    ) -> Any:
        """Call a method of the RuntimeService or ImageService, with gRPC metadata.

        Raises RpcError with the runtime's status, RuntimeUnavailable if the connection ends, and DeadlineExceeded after
        the client's deadline.
        """
        reply, full = _method(method)
        invoke = self._channel.unary_unary(full)
        try:
            answer = invoke(request.SerializeToString(), timeout=timeout_s or self.timeout_s, metadata=tuple(metadata))
        except self._grpc.RpcError as error:
            raise self._error(method, error) from None
        return decode_answer(reply, answer)

    def stream(self, method: str, request: Message) -> Iterator[Any]:
        """Call a method that answers with a stream, without a deadline. Raises the errors of `call`."""
        reply, full = _method(method)
        invoke = self._channel.unary_stream(full)
        try:
            for answer in invoke(request.SerializeToString()):
                yield decode_answer(reply, answer)
        except self._grpc.RpcError as error:
            raise self._error(method, error) from None

    def _error(self, method: str, error: Any) -> NriError:
        """Convert an error of gRPC."""
        codes, code, text = self._grpc.StatusCode, error.code(), error.details() or ""
        if code is codes.UNAVAILABLE and (not text or text.startswith(_BROKEN)):
            reason = connection_problem(self.path) or "the runtime closed the connection"
            return RuntimeUnavailable(self.path, reason, self._hint)
        if code is codes.DEADLINE_EXCEEDED and text in ("", _OUR_TIMER):
            if problem := connection_problem(self.path):
                return RuntimeUnavailable(self.path, problem, self._hint)
            return DeadlineExceeded(f"{method} of {self.path}")
        if code is codes.UNIMPLEMENTED:
            return RpcError(code.value[0], f"{self.path} does not serve {method} of CRI v1: {text}")
        return RpcError(code.value[0], text)


def _hint(option: str) -> str:
    """The next step if no runtime is found."""
    return f"Specify the runtime's CRI socket with {option}, or start one: nri engine serve"


def _try_connection(path: str, hint: str) -> None:
    """Connect once, because the kernel reports why a connection fails, and gRPC does not."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CALL_TIMEOUT_S)
        try:
            probe.connect(path)
        except PermissionError:
            raise RuntimeUnavailable(path, "permission denied", _AS_ROOT if os.geteuid() else hint) from None
        except OSError as error:
            raise RuntimeUnavailable(path, _refusal(path, error), hint) from None


def _refusal(path: str, error: OSError) -> str:
    """A short reason for a refused connection."""
    if isinstance(error, ConnectionRefusedError) and not Path(path).is_socket():
        return "not a socket"
    return (error.strerror or str(error)).lower()


def connection_problem(path: str) -> str:
    """Explain why a socket does not serve gRPC. Returns "" if it does.

    This sends the greeting of HTTP/2, with which gRPC begins. A server answers with its settings.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(GREETING_TIMEOUT_S)
        connected = False
        try:
            probe.connect(path)
            connected = True
            probe.sendall(_GREETING)
            answer = probe.recv(64)
        except TimeoutError:
            return "no answer: the program that listens on it hangs, or does not speak gRPC"
        except OSError as error:
            if not connected:
                return _refusal(path, error)
            answer = b""
    if answer[3:4] == b"\x04":  # a frame's type is its fourth byte; 4 is SETTINGS
        return ""
    if answer.startswith(b"HTTP/1"):
        return "not a CRI socket: it speaks HTTP/1, like Docker's socket"
    if not answer:
        return "not a CRI socket: it closes connections of gRPC, like an NRI socket"
    return f"not a gRPC server: it answered {cut(escape(answer.decode(errors='replace')), 40)}"


def _method(name: str) -> tuple[Any, str]:
    """The class of a method's answers, and the full name of the method."""
    for service in pb.DESCRIPTOR.services_by_name.values():
        method = service.methods_by_name.get(name)
        if method is not None:
            return GetMessageClass(method.output_type), f"/{service.full_name}/{name}"
    raise ValueError(f"the CRI has no method {name}")
