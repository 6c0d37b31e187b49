"""Every HTTP and gRPC client names this package, its version and its NRI release."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import grpc
import pytest

from nri.api.naming import NRI_VERSION
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.kube.client.http import make_client
from nri.pods.stream import Streams, converse
from nri.service.client import ask
from nri.user_agent import package_version, user_agent
from tests.support.http_server import HttpServer, page


@contextmanager
def recorded(listener: socket.socket) -> Iterator[list[str]]:
    """Record the head of one request to a socket, and close the connection without an answer."""
    heads: list[str] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            heads.append(connection.recv(65536).decode())

    listener.listen()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield heads
    thread.join(30)


def test_the_user_agent_has_the_version_and_the_nri_release() -> None:
    assert user_agent() == f"nri/{metadata.version('nri')} (NRI {NRI_VERSION})"
    assert re.fullmatch(r"nri/[\w.+]+ \(NRI v\d+\.\d+\.\d+\)", user_agent())


def test_a_source_tree_that_is_not_installed_has_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    assert package_version() == "unknown"


def test_a_question_to_an_agent_has_the_user_agent(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        with recorded(listener) as heads, pytest.raises(NriError):
            ask(str(tmp_path / "agent.sock"), "/explain", 5)
    assert f"User-Agent: {user_agent()}\r\n" in heads[0]


def test_a_stream_has_the_user_agent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        with recorded(listener) as heads, pytest.raises(NriError):
            converse(
                f"http://127.0.0.1:{listener.getsockname()[1]}/exec/x", Streams(lambda kind, data: None), tty=False
            )
    assert f"User-Agent: {user_agent()}\r\n" in heads[0]


def test_a_request_to_the_apiserver_has_the_user_agent(tmp_path: Path) -> None:
    with HttpServer().listening() as server:
        server.otherwise = page({})
        (tmp_path / "kubeconfig").write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        with make_client(str(tmp_path / "kubeconfig"), "", "") as client:
            client.get("/api/v1/pods")
        assert {key.lower(): text for key, text in server.asked[0]["headers"].items()}["user-agent"] == user_agent()


def test_a_call_of_the_cri_has_the_user_agent(tmp_path: Path) -> None:
    agents: list[str] = []

    class Runtime(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            agents.append(dict(handler_call_details.invocation_metadata)["user-agent"])
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    server = grpc.server(ThreadPoolExecutor(1), [Runtime()])
    server.add_insecure_port(f"unix://{tmp_path}/cri.sock")
    server.start()
    with CriClient(f"{tmp_path}/cri.sock") as cri:
        cri.call("ListPodSandbox", pb.ListPodSandboxRequest())
    server.stop(0).wait()
    assert agents[0].startswith(f"{user_agent()} grpc-python/")
