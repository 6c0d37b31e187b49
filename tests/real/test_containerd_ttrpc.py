"""`nri.ttrpc` against containerd's own ttRPC socket: what docs/howto/ttrpc.md promises."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from nri.errors import RpcError
from nri.ttrpc import Client, Code
from tests.real.conftest import Runtime

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/containerd_event.py"
EVENTS = "containerd.services.events.ttrpc.v1.Events"


def as_they_are(data: bytes) -> bytes:
    return data


def test_the_example_publishes_an_event_to_containerds_subscribers(runtime: Runtime) -> None:
    with grpc.insecure_channel(f"unix:{runtime.daemon.cri_socket}") as channel:
        subscribe = channel.unary_stream(
            "/containerd.services.events.v1.Events/Subscribe",
            request_serializer=as_they_are,
            response_deserializer=as_they_are,
        )
        stream = subscribe(b"", timeout=60)
        event = threading.Event()

        def read() -> None:
            try:
                for envelope in stream:
                    if b"/example/greeting" in envelope and b"hello from Python" in envelope:
                        event.set()
                        return
            except grpc.RpcError:
                return  # cancelled below

        reader = threading.Thread(target=read)
        reader.start()
        try:
            # A subscription is not acknowledged, so publish the event until it arrives.
            for _ in range(20):
                socket = str(runtime.daemon.run_dir / "ttrpc.sock")
                result = subprocess.run(
                    [sys.executable, EXAMPLE, socket], capture_output=True, text=True, timeout=60, check=False
                )
                assert result.returncode == 0, result.stderr
                if event.wait(1.0):
                    break
            assert event.is_set(), "containerd took the event, but no subscriber got it"
        finally:
            stream.cancel()
            reader.join(10)


def test_containerd_answers_an_unknown_method_with_unimplemented(runtime: Runtime) -> None:
    with (
        Client.connect(str(runtime.daemon.run_dir / "ttrpc.sock")) as client,
        pytest.raises(RpcError) as raised,
    ):
        client.call(EVENTS, "NoSuchMethod")
    assert raised.value.code == Code.UNIMPLEMENTED, str(raised.value)
