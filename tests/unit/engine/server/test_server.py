"""The CRI server at a unix socket."""

from __future__ import annotations

import stat
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, end_event
from nri.engine.config import EngineConfig, NriConfig, OciRuntime
from nri.engine.engine import Engine
from nri.engine.server.server import MAX_CALLS, MAX_CALLS_PER_CONNECTION, Server, cri_server
from nri.engine.support.errors import EngineError, NotFound
from nri.errors import NriError
from tests.support.waiting import wait_for


class Calls:
    """A few calls; `GetContainerEvents` runs until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def version(self, request: pb.VersionRequest, call: object) -> pb.VersionResponse:
        return pb.VersionResponse(runtime_name="test")

    def stop_container(self, request: pb.StopContainerRequest, call: object) -> pb.StopContainerResponse:
        raise NotFound("container", request.container_id)

    def image_fs_info(self, request: pb.ImageFsInfoRequest, call: object) -> pb.ImageFsInfoResponse:
        return pb.ImageFsInfoResponse()

    def get_container_events(self, request: pb.GetEventsRequest, call: object) -> Iterator[pb.ContainerEventResponse]:
        self.begun.set()
        yield pb.ContainerEventResponse(container_id="c1")
        self.let_go.wait(60)


def test_both_services_are_served_at_a_private_socket(tmp_path: Path) -> None:
    server = Server(tmp_path / "run/cri.sock", [Calls()])
    server.start()
    try:
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
        with CriClient(str(server.path)) as client:
            assert client.call("Version", pb.VersionRequest()).runtime_name == "test"
            client.call("ImageFsInfo", pb.ImageFsInfoRequest())
            with pytest.raises(NriError, match="no container 'c9'"):
                client.call("StopContainer", pb.StopContainerRequest(container_id="c9"))
            with pytest.raises(NriError, match=r"(?i)unimplemented|not found"):
                client.call("Status", pb.StatusRequest())
    finally:
        server.stop()
    assert not server.path.exists()


def test_a_stop_ends_streams(tmp_path: Path) -> None:
    calls = Calls()
    server = Server(tmp_path / "cri.sock", [calls], on_stop=calls.let_go.set)
    server.start()
    with CriClient(str(server.path)) as client:
        stream = client.stream("GetContainerEvents", pb.GetEventsRequest())
        assert next(stream).container_id == "c1"
        server.stop(grace_s=20)
        assert [*stream] == []


def test_one_client_cannot_use_all_calls(tmp_path: Path) -> None:
    calls = Calls()
    server = Server(tmp_path / "cri.sock", [calls], on_stop=calls.let_go.set)
    server.start()
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{server.path}", options=options) as channel:
        ask = channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")
        listening = [ask(b"") for _ in range(MAX_CALLS)]
        assert next(listening[0])
        wait_for(
            lambda: (
                len([entry for entry in threading.enumerate() if entry.name.startswith("cri")])
                >= MAX_CALLS_PER_CONNECTION
            )
        )
        with CriClient(str(server.path), timeout_s=20) as client:
            assert client.call("Version", pb.VersionRequest()).runtime_name == "test"
        for entry in listening:
            entry.cancel()
    server.stop()


class Waiting:
    """A stop that lasts as long as somebody waits for it."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def stop_container(self, request: pb.StopContainerRequest, call: Call) -> pb.StopContainerResponse:
        client_gone = end_event(call)
        self.begun.set()
        assert client_gone.wait(20)
        self.over.set()
        return pb.StopContainerResponse()


def test_a_waiting_call_notices_its_cancellation(tmp_path: Path) -> None:
    calls = Waiting()
    server = Server(tmp_path / "s", [calls])
    server.start()
    try:
        with grpc.insecure_channel(f"unix:{server.path}", options=[("grpc.default_authority", "localhost")]) as channel:
            future = channel.unary_unary("/runtime.v1.RuntimeService/StopContainer").future(b"")
            assert calls.begun.wait(20)
            future.cancel()
            assert calls.over.wait(20)
    finally:
        server.stop()


def test_stop_can_be_called_without_a_start_and_twice(tmp_path: Path) -> None:
    server = Server(tmp_path / "cri.sock", [Calls()])
    server.stop()
    assert not server.path.exists()
    server.start()
    assert server.path.is_socket()
    for _ in range(2):
        server.stop()
        assert not server.path.exists(), "its socket is removed"


def test_an_unusable_socket_path_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "cri.sock").write_text("a file")
    with pytest.raises(EngineError, match=f"cannot listen at {tmp_path}/cri.sock"):
        Server(tmp_path / "cri.sock", [Calls()]).start()
    assert (tmp_path / "cri.sock").read_text() == "a file"


#: Checkpoints, which the engine does not make.
UNANSWERED = {"CheckpointContainer", "CheckpointPod", "RestorePod"}


class NoStreams:
    """No address for exec and the like."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    nri = NriConfig(disable=True)
    runtimes = {"runc": OciRuntime(path="runc"), "crun": OciRuntime(path="crun")}
    config = EngineConfig(
        dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri, runtimes=runtimes,
        default_runtime="crun",
    )  # fmt: skip
    with Engine(config) as engine:
        server_ = cri_server(engine, NoStreams())  # type: ignore[arg-type]
        server_.start()
        yield server_
        server_.stop()


def code_of(call: Any) -> grpc.StatusCode:
    """How a call ended, once a stream is read to its end."""
    with suppress(grpc.RpcError):
        deque(call)
    return call.code()


def test_every_call_has_an_answer(server: Server) -> None:
    codes, streams = {}, {}
    with grpc.insecure_channel(f"unix:{server.path}") as channel:
        for service in pb.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                name = f"/{service.full_name}/{method.name}"
                if method.server_streaming:
                    streams[method.name] = channel.unary_stream(name)(b"")
                else:
                    codes[method.name] = channel.unary_unary(name).future(b"").code()
        server.stop(grace_s=20)  # some streams last until then
        codes |= {name: code_of(call) for name, call in streams.items()}
    missing = {name for name, code in codes.items() if code is grpc.StatusCode.UNIMPLEMENTED}
    assert missing == UNANSWERED


def test_status_has_conditions_handlers_and_configuration(server: Server) -> None:
    with CriClient(str(server.path)) as client:
        response = client.call("Status", pb.StatusRequest(verbose=True))
    assert [row.type for row in response.status.conditions] == ["RuntimeReady", "NetworkReady"]
    handlers = {row.name: row.features for row in response.runtime_handlers}
    assert set(handlers) == {"", "runc", "crun"}
    assert handlers[""] == handlers["crun"]
    assert "default_runtime" in response.info["config"]
