"""Encoding and decoding of messages, and their errors."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.errors import RpcError
from nri.ttrpc import Client, Code, Method, Server, Service


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def rename(pod: m.PodSandbox) -> m.PodSandbox:
    return m.PodSandbox(name=pod.name.upper())


RENAME = pods(("Rename", Method(rename, m.PodSandbox, m.PodSandbox)))


def test_an_undecodable_payload_has_the_status_internal(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Rename", b"\xff\xff")
        assert caught.value.code == Code.INTERNAL


def test_an_undecodable_reply_has_the_status_internal(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda _: b"\xff\xff")))]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Raw", b"", m.PodSandbox)
        assert caught.value.code == Code.INTERNAL


def test_a_request_of_a_wrong_type_is_a_type_error(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(TypeError, match="a request must be a protobuf message or bytes, not dict"):
            client.call("test.Pods", "Rename", {"name": "web"})  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="a protobuf message or bytes, not the class PodSandbox"):
            client.call("test.Pods", "Rename", m.PodSandbox)  # type: ignore[call-overload]
