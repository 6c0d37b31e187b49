"""The CRI client: calls reach a real gRPC server, and every failure says what to do."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from nri.cri import client
from nri.cri.client import INSTALL, CriClient, find_socket
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError, RuntimeUnavailable
from tests.support.cri_server import CriServer


@pytest.fixture
def path(tmp_path: Path) -> str:
    server = CriServer()
    server.add_pod("p1", "web")
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_a_call_is_answered_also_where_the_environment_has_a_proxy(path: str, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    with CriClient(f"unix://{path}") as cri:
        assert [pod.id for pod in cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items] == ["p1"]


def test_a_status_of_the_runtime_is_an_error_with_its_code(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="no such container") as caught:
        cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id="x"))
    assert caught.value.code == 5


def test_a_call_that_the_runtime_does_not_serve_is_named(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve Version of CRI v1"):
        cri.call("Version", pb.VersionRequest())
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve GetContainerEvents"):
        list(cri.stream("GetContainerEvents", pb.GetEventsRequest()))


def test_a_method_that_the_cri_does_not_have_is_a_mistake_of_ours(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(ValueError, match="no method Nope"):
        cri.call("Nope", pb.VersionRequest())


def test_a_socket_that_is_not_there_says_which_option_names_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"no such file or directory\. Name .* --cri-socket"):
        CriClient(str(tmp_path / "none"))


def test_what_does_not_speak_grpc_is_told_in_time(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with CriClient(str(tmp_path / "s"), timeout_s=0.5) as cri, pytest.raises(NriError, match=r"deadline|gRPC"):
            cri.call("Version", pb.VersionRequest())


def test_the_first_socket_of_the_machine_is_taken(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(client, "SOCKETS", (str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(RuntimeUnavailable):
        find_socket()
    (tmp_path / "b").touch()
    assert find_socket() == str(tmp_path / "b")


def test_without_grpcio_the_extra_is_named(path: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(NriError, match=re.escape(INSTALL)):
        CriClient(path)
