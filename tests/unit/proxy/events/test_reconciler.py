"""What the runtime has is compared with the records again and again, whatever keeps it from answering at first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.server import bind
from nri.errors import RpcError
from nri.proxy.events import reconciler
from nri.proxy.events.inquiry import Inquiry
from nri.proxy.passing import backend
from tests.engine.node import Recorder
from tests.support.proxied import Proxied, wait_for


def test_a_runtime_that_comes_while_plugins_are_let_in_is_asked_what_it_has(world: Proxied) -> None:
    world.stop()
    pod = world.run_pod(cri=world.direct)
    world.stop_runtime()

    def admit(_: object) -> None:
        world.start_runtime()
        wait_for(lambda: world.proxy is not None and world.proxy.connected, "the connection")

    proxy = world.start(admit=admit)
    wait_for(lambda: proxy.book.pod(pod), "the pod of the runtime")


def test_a_runtime_that_cannot_answer_yet_is_asked_again_and_that_is_said_once(
    world: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As containerd does until its CRI service has found what runs."""
    world.stop()
    pod = world.run_pod(cri=world.direct)
    lists, refused = Inquiry.lists, list[int]()

    def not_yet(self: Inquiry) -> Any:
        if len(refused) < 3:
            refused.append(1)
            raise RpcError(14, "server is not initialized yet")
        return lists(self)

    monkeypatch.setattr(Inquiry, "lists", not_yet)
    proxy = world.start()
    wait_for(lambda: proxy.book.pod(pod), "the pod of the runtime")
    assert len(refused) == 3
    assert caplog.text.count("are not known yet") == 1


def test_what_is_made_and_removed_around_the_proxy_is_found_without_a_call_that_names_it(
    world: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.stop()
    monkeypatch.setattr(reconciler, "EVERY_S", 0.1)
    proxy = world.start()
    plugin = world.attach(Recorder())
    pod = world.run_pod(cri=world.direct)
    wait_for(lambda: plugin.of("pod") == ["run_pod"], "the pod, told")
    world.direct.call("StopPodSandbox", pod_sandbox_id=pod)
    world.direct.call("RemovePodSandbox", pod_sandbox_id=pod)
    wait_for(lambda: plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"], "its end, told")
    wait_for(lambda: proxy.book.pods() == [], "its record, dropped")


def test_a_proxy_stops_although_its_runtime_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "CALL_TIMEOUT_S", 300.0)
    asked, end = threading.Event(), threading.Event()

    class Hangs(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            def hang(_: bytes, context: grpc.ServicerContext) -> bytes:
                asked.set()
                end.wait(60)
                return b""

            return grpc.unary_unary_rpc_method_handler(hang)

    world = Proxied(tmp_path)
    proxy = world.start()
    server = bind(world.settings.runtime_endpoint, ThreadPoolExecutor(4), [Hangs()])
    server.start()
    try:
        assert asked.wait(20)
        begin = time.monotonic()
        proxy.stop()
        assert time.monotonic() - begin < 60
        assert not [each for each in threading.enumerate() if each.name.startswith("nri-proxy")]
    finally:
        end.set()
        server.stop(0).wait()
        world.close()
