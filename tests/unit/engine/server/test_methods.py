"""Methods of a service: lookup, request checks and error statuses."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from nri import errors
from nri.cri.pb import api_pb2 as pb
from nri.engine.server.methods import ROWS, Methods, check_request, snake, status_of
from nri.engine.support.errors import (
    AlreadyExists,
    CommandFailed,
    CommandTimeout,
    EngineError,
    InvalidRequest,
    MissingTool,
    NotFound,
    TooMany,
    WrongState,
)
from nri.errors import RequestError

Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestError("mounts[0]", "x", "is none"), Code.INVALID_ARGUMENT),
        (InvalidRequest("no image"), Code.INVALID_ARGUMENT),
        (NotFound("pod", "p"), Code.NOT_FOUND),
        (AlreadyExists("pod", "n", "id"), Code.ALREADY_EXISTS),
        (WrongState("pod p", "stopped", "start"), Code.FAILED_PRECONDITION),
        (MissingTool("runc"), Code.FAILED_PRECONDITION),
        (CommandTimeout("exec", 1), Code.DEADLINE_EXCEEDED),
        (TooMany("listeners", 32), Code.RESOURCE_EXHAUSTED),
        (CommandFailed("runc create", 1, "no"), Code.UNKNOWN),
        (EngineError("else"), Code.UNKNOWN),
        (errors.PluginRejected("10-p", "no"), Code.PERMISSION_DENIED),
        (errors.ValidationRejected("p", "no"), Code.PERMISSION_DENIED),
        (errors.PluginTimeout("10-p", "late"), Code.DEADLINE_EXCEEDED),
        (errors.PluginUnavailable("10-p", "absent"), Code.UNAVAILABLE),
        (errors.PluginError("10-p", "failed"), Code.UNKNOWN),
        (NotImplementedError("later"), Code.UNIMPLEMENTED),
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EIO, "I/O error"), Code.UNKNOWN),
        (ValueError("a fault of ours"), Code.UNKNOWN),
    ],
)
def test_every_error_has_its_code_and_keeps_its_text(error: Exception, code: Code) -> None:
    assert status_of(error) == (code, str(error))


def test_an_error_without_a_text_has_the_name_of_its_class() -> None:
    assert status_of(KeyError()) == (Code.UNKNOWN, "KeyError")


def test_no_row_is_hidden_by_an_earlier_row() -> None:
    for place, row in enumerate(ROWS):
        before = [entry.kind for entry in ROWS[:place] if entry.when is None]
        assert not any(issubclass(row.kind, kind) for kind in before), row


def test_the_page_on_conformance_has_the_table() -> None:
    page = Path(__file__).parents[4].joinpath("docs/conformance.md").read_text()
    rows = re.findall(r"\(`(\w+)`\) \| (\w+) \|", page)
    assert rows == [(row.kind.__name__, row.code.name) for row in ROWS]


def pod(**fields: object) -> pb.RunPodSandboxRequest:
    return pb.RunPodSandboxRequest(config=pb.PodSandboxConfig(**fields))  # type: ignore[arg-type]


def container(**fields: object) -> pb.CreateContainerRequest:
    return pb.CreateContainerRequest(config=pb.ContainerConfig(**fields))  # type: ignore[arg-type]


SHARED = pb.NamespaceOption(network=99)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (pod(hostname="a\0b"), 'config.hostname: "a\\x00b": contains a zero byte'),
        (pod(labels={"k": "a\0"}), 'config.labels[k]: "a\\x00": contains a zero byte'),
        (pod(labels={"k\0": "a"}), 'config.labels: "k\\x00": contains a zero byte'),
        (pod(dns_config=pb.DNSConfig(servers=["a", "b\0"])), "config.dns_config.servers[1]"),
        (pod(port_mappings=[pb.PortMapping(protocol=99)]), "config.port_mappings[0].protocol: 99: is unknown"),
        (container(stop_signal=999), "config.stop_signal: 999: is unknown"),
        (container(command=["sh", "-\0"]), "config.command[1]"),
        (container(mounts=[pb.Mount(), pb.Mount(host_path="/\0")]), "config.mounts[1].host_path"),
        (
            container(linux=pb.LinuxContainerConfig(
                security_context=pb.LinuxContainerSecurityContext(namespace_options=SHARED)
            )),
            "config.linux.security_context.namespace_options.network: 99: is unknown",
        ),
        (pb.PullImageRequest(image=pb.ImageSpec(annotations={"a": "\0"})), "image.annotations[a]"),
        (pb.ListContainersRequest(filter={"state": {"state": 7}}), "filter.state.state: 7"),
        (pod(annotations={"a": "x" * (5 << 20)}), "exceeds 4194304"),
        (container(mounts=[pb.Mount()] * (1 << 20)), "config.mounts[131071]: 131073: a request has at most 131072"),
        (container(args=[""] * 131_072), "a request has at most 131072 values"),
        (pod(labels={str(number): "" for number in range(66_000)}), "a request has at most 131072 values"),
    ],
)  # fmt: skip
def test_an_invalid_request_is_an_error_with_its_field(request_: Message, problem: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_request(request_)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "request_",
    [
        pb.VersionRequest(),
        pod(hostname="web", labels={"a": "b"}, annotations={"c": "é\n"}),
        container(envs=[pb.KeyValue(key="a", value=b"\xff\x00")], stop_signal=pb.SIGNAL_SIGTERM),
        pb.ExecSyncRequest(container_id="c", cmd=["a", ""], timeout=2**63 - 1),
        pb.PortForwardRequest(pod_sandbox_id="p", port=[1, 2]),
    ],
)
def test_other_requests_reach_the_handler(request_: Message) -> None:
    check_request(request_)


RUNTIME = pb.DESCRIPTOR.services_by_name["RuntimeService"]


class First:
    def version(self, request: pb.VersionRequest, call: object) -> pb.VersionResponse:
        return pb.VersionResponse(version=request.version)

    def stop_container(self, request: pb.StopContainerRequest, call: object) -> pb.StopContainerResponse:
        raise NotFound("container", request.container_id)

    def get_container_events(self, request: object, call: object) -> object:
        yield pb.ContainerEventResponse(container_id="one")
        raise NotFound("pod", "two")


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
def test_a_call_name_becomes_a_method_name(name: str, method: str) -> None:
    assert snake(name) == method


def test_a_request_is_checked_before_the_handler() -> None:
    methods = Methods(RUNTIME, [First()])
    behave = methods.handlers["StopContainer"].unary_unary
    with pytest.raises(grpc.RpcError) as caught:
        behave(pb.StopContainerRequest(container_id="a\0"), Context())
    assert caught.value.args[0] is grpc.StatusCode.INVALID_ARGUMENT
    stream = methods.handlers["GetContainerEvents"].unary_stream
    with pytest.raises(grpc.RpcError) as caught:
        [*stream(pb.VersionRequest(version="\0"), Context())]
    assert caught.value.args[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_the_first_group_with_a_method_answers_and_missing_methods_are_named() -> None:
    methods = Methods(RUNTIME, [First(), Second()])
    assert methods.service == "runtime.v1.RuntimeService"
    assert set(methods.handlers) == {"Version", "StopContainer", "GetContainerEvents", "Attach"}
    assert "RunPodSandbox" in methods.missing and len(methods.missing) + 4 == len(RUNTIME.methods)
    assert (
        methods.handlers["GetContainerEvents"].response_streaming and not methods.handlers["Version"].response_streaming
    )


def test_a_handler_converts_bytes_and_errors() -> None:
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


def test_an_internal_error_is_logged_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        def version(self, request: object, call: object) -> object:
            raise ValueError("wrong")

    with pytest.raises(grpc.RpcError):
        Methods(RUNTIME, [Faulty()]).handlers["Version"].unary_unary(pb.VersionRequest(), Context())
    assert "in version" in caplog.text


def test_a_method_can_read_the_deadline_and_notice_a_cancellation() -> None:
    requests: list[object] = []

    class Asking:
        def version(self, request: object, call: object) -> pb.VersionResponse:
            requests.append(call.time_left())  # type: ignore[attr-defined]
            call.on_end(lambda: requests.append("gone"))  # type: ignore[attr-defined]
            return pb.VersionResponse()

    handler = Methods(RUNTIME, [Asking()]).handlers["Version"].unary_unary
    for context in (Context(None), Context(2.5), Context(1e12), Context(3.0, over=True)):
        handler(pb.VersionRequest(), context)
    assert requests == [None, 2.5, None, 3.0, "gone"]
