"""Calls of a service matched with the methods of groups, without a server."""

from __future__ import annotations

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.server.methods import Methods, snake
from nri.engine.support.errors import NotThere

RUNTIME = pb.DESCRIPTOR.services_by_name["RuntimeService"]


class First:
    def version(self, request: pb.VersionRequest, call: object) -> pb.VersionResponse:
        return pb.VersionResponse(version=request.version)

    def stop_container(self, request: pb.StopContainerRequest, call: object) -> pb.StopContainerResponse:
        raise NotThere("container", request.container_id)

    def get_container_events(self, request: object, call: object) -> object:
        yield pb.ContainerEventResponse(container_id="one")
        raise NotThere("pod", "two")


class Second(First):
    def attach(self, request: pb.AttachRequest, call: object) -> pb.AttachResponse:
        return pb.AttachResponse(url="u")


class Context:
    """What of a gRPC context is used."""

    def __init__(self, remaining: float | None = None, over: bool = False) -> None:
        self.remaining, self.over = remaining, over
        self.callbacks: list[object] = []

    def abort(self, code: grpc.StatusCode, text: str) -> None:
        raise grpc.RpcError(code, text)

    def time_remaining(self) -> float | None:
        return self.remaining

    def add_callback(self, callback: object) -> bool:
        self.callbacks.append(callback)
        return not self.over


@pytest.mark.parametrize(
    ("name", "method"),
    [("Version", "version"), ("RunPodSandbox", "run_pod_sandbox"), ("ListPodSandboxStats", "list_pod_sandbox_stats")],
)
def test_a_calls_name_becomes_that_of_a_method(name: str, method: str) -> None:
    assert snake(name) == method


def test_the_first_group_with_a_method_answers_and_what_nobody_answers_is_named() -> None:
    made = Methods(RUNTIME, [First(), Second()])
    assert made.service == "runtime.v1.RuntimeService"
    assert set(made.handlers) == {"Version", "StopContainer", "GetContainerEvents", "Attach"}
    assert "RunPodSandbox" in made.missing and len(made.missing) + 4 == len(RUNTIME.methods)
    assert made.handlers["GetContainerEvents"].response_streaming and not made.handlers["Version"].response_streaming


def test_a_handler_takes_and_gives_bytes_and_turns_errors_into_statuses() -> None:
    handlers = Methods(RUNTIME, [First()]).handlers
    request = handlers["Version"].request_deserializer(pb.VersionRequest(version="v").SerializeToString())
    reply = handlers["Version"].unary_unary(request, Context())
    assert handlers["Version"].response_serializer(reply) == pb.VersionResponse(version="v").SerializeToString()
    with pytest.raises(grpc.RpcError) as caught:
        handlers["StopContainer"].unary_unary(pb.StopContainerRequest(container_id="c"), Context())
    assert caught.value.args == (grpc.StatusCode.NOT_FOUND, "no container 'c'")
    stream = handlers["GetContainerEvents"].unary_stream(pb.GetEventsRequest(), Context())
    assert next(stream).container_id == "one"
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.args == (grpc.StatusCode.NOT_FOUND, "no pod 'two'")


def test_a_fault_of_ours_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        def version(self, request: object, call: object) -> object:
            raise ValueError("wrong")

    with pytest.raises(grpc.RpcError):
        Methods(RUNTIME, [Faulty()]).handlers["Version"].unary_unary(pb.VersionRequest(), Context())
    assert "in version" in caplog.text


def test_a_method_can_ask_how_long_its_client_waits_and_be_told_when_it_goes() -> None:
    seen: list[object] = []

    class Asking:
        def version(self, request: object, call: object) -> pb.VersionResponse:
            seen.append(call.time_left())  # type: ignore[attr-defined]
            call.on_end(lambda: seen.append("gone"))  # type: ignore[attr-defined]
            return pb.VersionResponse()

    handler = Methods(RUNTIME, [Asking()]).handlers["Version"].unary_unary
    for context in (Context(None), Context(2.5), Context(1e12), Context(3.0, over=True)):
        handler(pb.VersionRequest(), context)
    assert seen == [None, 2.5, None, 3.0, "gone"]
