"""A CRI server with pods and containers that a test makes up: real gRPC, no runtime behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from nri.cri.pb import api_pb2 as pb


class CriServer:
    """Answers lists and the status of containers out of `pods` and `containers`; creations are late, others unknown."""

    def __init__(self) -> None:
        self.pods: list[pb.PodSandbox] = []
        self.containers: list[pb.Container] = []
        self.images: dict[str, pb.Image] = {}
        self.logs: dict[str, str] = {}
        self.runtime = "other"
        self.pull_error = ""
        self.refusal: tuple[grpc.StatusCode, str] | None = None  # of creations; without one they never end

    def add_pod(self, pod_id: str, name: str, **more: Any) -> None:
        metadata = pb.PodSandboxMetadata(name=name, namespace=more.pop("namespace", "default"))
        self.pods.append(pb.PodSandbox(id=pod_id, metadata=metadata, **more))

    def add_container(self, container_id: str, pod_id: str, name: str, **more: Any) -> pb.Container:
        metadata = pb.ContainerMetadata(name=name, attempt=more.pop("attempt", 0))
        more.setdefault("state", pb.CONTAINER_RUNNING)
        container = pb.Container(id=container_id, pod_sandbox_id=pod_id, metadata=metadata, **more)
        self.containers.append(container)
        return container

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        if method == "CreateContainer":
            if self.refusal:
                context.abort(*self.refusal)
            given_up = threading.Event()
            if context.add_callback(given_up.set):
                given_up.wait()
        answers = {
            "Version": pb.VersionResponse(version="0.1.0", runtime_name=self.runtime, runtime_api_version="v1"),
            "UpdateRuntimeConfig": pb.UpdateRuntimeConfigResponse(),
            "Status": pb.StatusResponse(),
            "ListPodSandbox": pb.ListPodSandboxResponse(items=self.pods),
            "ListContainers": pb.ListContainersResponse(containers=self.containers),
        }
        if method in answers:
            return answers[method]
        if method == "ContainerStatus":
            for one in self.containers:
                if one.id == request.container_id:
                    status = pb.ContainerStatus(id=one.id, state=one.state, log_path=self.logs.get(one.id, ""))
                    return pb.ContainerStatusResponse(status=status)
            context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        if method == "ImageStatus" and self.images:
            return pb.ImageStatusResponse(image=self.images.get(request.image.image))
        if method == "PullImage" and self.pull_error:
            context.abort(grpc.StatusCode.UNKNOWN, self.pull_error)
        return context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")

    @contextmanager
    def listening(self, path: Path) -> Iterator[str]:
        """Serve on a socket while the block lasts."""
        server = grpc.server(futures.ThreadPoolExecutor(2))
        for service in pb.DESCRIPTOR.services_by_name.values():
            handlers = {
                method.name: grpc.unary_unary_rpc_method_handler(
                    lambda request, context, name=method.name: self.answer(name, request, context),
                    request_deserializer=_reader(method.input_type),
                    response_serializer=lambda message: message.SerializeToString(),
                )
                for method in service.methods
            }
            server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
        server.add_insecure_port(f"unix://{path}")
        server.start()
        try:
            yield str(path)
        finally:
            server.stop(None).wait()


def _reader(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor).FromString
