"""A client of a runtime's CRI socket: calls with deadlines, and errors that say what to do. Needs the extra `cri`.

    with CriClient("/run/containerd/containerd.sock") as cri:
        reply = cri.call("ListContainers", pb.ListContainersRequest())

Works with any runtime that serves CRI v1. Next: `nri.cri.pb`, the messages.
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
from nri.wire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ARCHIVE_KEY", "INSTALL", "SOCKETS", "CriClient", "decoded", "find_socket"]

M = TypeVar("M", bound=Message)

#: How to install what the CRI needs. No package index has this project, so its name alone would bring a stranger's.
INSTALL = "pip install '.[engine]', in a checkout of nri"

#: The key beside a PullImage under which our engine takes an archive. A kubelet sends none, whatever a pod says.
ARCHIVE_KEY = "nri-archive-bin"
CALL_TIMEOUT_S = 10.0
#: gRPC's number of INTERNAL.
_INTERNAL = 13
#: Entries of an answer that are read along, counted where there may be so many: an empty one takes some hundred times
#: its bytes once it is a message.
_MOST_ENTRIES, _COUNTED_BYTES = 1 << 16, 1 << 18
#: How long what listens at a socket has to answer a greeting, in seconds, and the greeting: HTTP/2's, empty settings.
MET_S = 2.0
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
#: What gRPC itself says where our timer has ended a call, and how its words on a broken connection begin. A runtime
#: that answers with such a status has words of its own: most often of a plugin that was late or is gone.
_OUR_TIMER = "Deadline Exceeded"
_BROKEN = ("failed to connect", "Stream removed", "Socket closed", "recvmsg", "sendmsg", "Connection", "Broken pipe",
           "GOAWAY", "Endpoint", "Received")  # fmt: skip
#: Where runtimes listen, in the order in which they are looked for: first this project's engine.
SOCKETS = ("/run/nri-engine/engine.sock", *(path for row in RUNTIMES for path in row.cri_sockets))
_AS_ROOT = "Run it as root"
#: The option that names the socket, for those that have no other one.
_OPTION = "--cri-socket"


def find_socket(option: str = _OPTION) -> str:
    """The CRI socket of this machine: the first one of `SOCKETS` that is there, or that may be. RuntimeUnavailable.

    `option` is what names another one, for the error.
    """
    closed = ""
    for path in SOCKETS:
        try:
            os.stat(path)
        except PermissionError:  # its folder is root's alone, as that of our engine is
            closed = closed or path
        except OSError:
            continue
        else:
            return path
    if closed:
        raise RuntimeUnavailable(closed, "permission denied", _AS_ROOT)
    raise RuntimeUnavailable(SOCKETS[0], f"no such file, nor any of {', '.join(SOCKETS[1:4])}", _hint(option))


def decoded(kind: type[M], answer: bytes) -> M:
    """An answer of the runtime as a message. Raises RpcError for one that cannot be read, or has too much in it."""
    what = f"{kind.DESCRIPTOR.name.removesuffix('Response')}: the runtime's answer"
    try:
        if len(answer) > _COUNTED_BYTES and any(
            number >= _MOST_ENTRIES for number, _ in enumerate(iter_fields(answer))
        ):
            raise RpcError(_INTERNAL, f"{what} has more than {_MOST_ENTRIES} entries")
        return kind.FromString(answer)
    except (DecodeError, RemoteProtocolError) as error:
        raise RpcError(_INTERNAL, f"{what} cannot be read: {error}") from None


class CriClient:
    """A connection to a CRI socket. NriError without grpcio, RuntimeUnavailable if no program listens there.

    Args:
        path: the socket, with or without ``unix://``.
        timeout_s: how long one call may take, in seconds.
        option: what names another socket, for errors: an option, or a key of settings.
    """

    def __init__(self, path: str, timeout_s: float = CALL_TIMEOUT_S, option: str = _OPTION) -> None:
        try:
            import grpc
        except ImportError:
            raise NriError(f"the CRI needs grpcio, which is not installed. Install the extra: {INSTALL}") from None
        self.path = path.removeprefix("unix://")
        self.timeout_s = timeout_s
        self._hint = _hint(option)
        _knock(self.path, self._hint)
        self._grpc = grpc
        # A proxy of the environment must not get in the way of a unix socket, nor the path into the authority.
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", 16 << 20),
        ]
        self._channel = grpc.insecure_channel(f"unix://{os.path.abspath(self.path)}", options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def call(
        self, method: str, request: Message, timeout_s: float | None = None, beside: Sequence[tuple[str, bytes]] = ()
    ) -> Any:
        """Call a method of the RuntimeService or ImageService; `beside` goes beside the request, as gRPC's metadata.

        Raises RpcError with the runtime's status, RuntimeUnavailable, DeadlineExceeded after our own deadline.
        """
        reply, full = _method(method)
        invoke = self._channel.unary_unary(full)
        try:
            answer = invoke(request.SerializeToString(), timeout=timeout_s or self.timeout_s, metadata=tuple(beside))
        except self._grpc.RpcError as error:
            raise self._error(method, error) from None
        return decoded(reply, answer)

    def stream(self, method: str, request: Message) -> Iterator[Any]:
        """Call a method that answers with a stream, without a deadline. Raises as `call` does."""
        reply, full = _method(method)
        invoke = self._channel.unary_stream(full)
        try:
            for answer in invoke(request.SerializeToString()):
                yield decoded(reply, answer)
        except self._grpc.RpcError as error:
            raise self._error(method, error) from None

    def _error(self, method: str, error: Any) -> NriError:
        """Our error for gRPC's."""
        codes, code, words = self._grpc.StatusCode, error.code(), error.details() or ""
        if code is codes.UNAVAILABLE and (not words or words.startswith(_BROKEN)):
            return RuntimeUnavailable(self.path, met(self.path) or "it has closed the connection", self._hint)
        if code is codes.DEADLINE_EXCEEDED and words in ("", _OUR_TIMER):
            if other := met(self.path):
                return RuntimeUnavailable(self.path, other, self._hint)
            return DeadlineExceeded(f"{method} of {self.path}")
        if code is codes.UNIMPLEMENTED:
            return RpcError(code.value[0], f"{self.path} does not serve {method} of CRI v1: {words}")
        return RpcError(code.value[0], words)


def _hint(option: str) -> str:
    """The next step where no runtime is found."""
    return f"Name the runtime's CRI socket with {option}, or start one: nri engine serve"


def _knock(path: str, hint: str) -> None:
    """Connect once, because the kernel says why it fails, and gRPC does not."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CALL_TIMEOUT_S)
        try:
            probe.connect(path)
        except PermissionError:
            raise RuntimeUnavailable(path, "permission denied", _AS_ROOT if os.geteuid() else hint) from None
        except OSError as error:
            raise RuntimeUnavailable(path, _refusal(path, error), hint) from None


def _refusal(path: str, error: OSError) -> str:
    """Say in a few words why a connection to a socket is refused."""
    if isinstance(error, ConnectionRefusedError) and not Path(path).is_socket():
        return "it is no socket"
    return (error.strerror or str(error)).lower()


def met(path: str) -> str:
    """Say why a socket does not serve gRPC: what is there, or why it cannot be connected to; "" if it does.

    It is greeted as gRPC does, which begins with HTTP/2: a server of that answers with its settings.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(MET_S)
        connected = False
        try:
            probe.connect(path)
            connected = True
            probe.sendall(_GREETING)
            said = probe.recv(64)
        except TimeoutError:
            return "it says nothing: what listens there does not speak gRPC, or hangs"
        except OSError as error:
            if not connected:
                return _refusal(path, error)
            said = b""
    if said[3:4] == b"\x04":  # a frame's type is its fourth byte; 4 is SETTINGS
        return ""
    if said.startswith(b"HTTP/1"):
        return "it speaks HTTP/1, as the socket of Docker does: it is no CRI socket"
    if not said:
        return "it hangs up on gRPC, as an NRI socket does: it is no CRI socket"
    return f"it does not speak gRPC: it said {cut(escape(said.decode(errors='replace')), 40)}"


def _method(name: str) -> tuple[Any, str]:
    """The class of a method's answers, and the name of its call."""
    for service in pb.DESCRIPTOR.services_by_name.values():
        method = service.methods_by_name.get(name)
        if method is not None:
            return GetMessageClass(method.output_type), f"/{service.full_name}/{name}"
    raise ValueError(f"the CRI has no method {name}")
