"""Messages as bytes and back, and what is said where that cannot be."""

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


def test_a_payload_that_does_not_decode_is_internal(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Rename", b"\xff\xff")
        assert caught.value.code == Code.INTERNAL


def test_a_reply_that_is_not_of_its_class_is_internal(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda _: b"\xff\xff")))]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Raw", b"", m.PodSandbox)
        assert caught.value.code == Code.INTERNAL


def test_a_request_that_is_no_message_is_refused_here(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(TypeError, match="a request must be a protobuf message or bytes, not dict"):
            client.call("test.Pods", "Rename", {"name": "web"})  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="a protobuf message or bytes, not the class PodSandbox"):
            client.call("test.Pods", "Rename", m.PodSandbox)  # type: ignore[call-overload]
