"""Pods and containers that were created without the proxy are adopted from the runtime."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.cri.server import bind
from nri.errors import DeadlineExceeded, RpcError
from nri.proxy.events.adoption import container_key, is_skipped, pod_key
from nri.proxy.events.runtime_queries import RuntimeQueries
from nri.proxy.passing import backend
from nri.proxy.settings import ProxySettings
from nri.proxy.state import CREATED, STOPPED
from tests.engine.node import Recorder
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for

LABEL = ProxySettings().skip_label_key


def test_pods_of_different_attempts_are_different() -> None:
    assert pod_key(pb.PodSandboxMetadata(name="a", uid="u")) != pod_key(
        pb.PodSandboxMetadata(name="a", uid="u", attempt=1)
    )
    assert container_key("p", pb.ContainerMetadata(name="a")) != container_key("q", pb.ContainerMetadata(name="a"))


@pytest.mark.parametrize(("labels", "skipped"), [({LABEL: "true"}, True), ({LABEL: "no"}, False), ({}, False)])
def test_a_pod_is_skipped_by_key_and_value(labels: dict[str, str], skipped: bool) -> None:
    assert is_skipped(ProxySettings(), pb.PodSandboxConfig(labels=labels)) is skipped


def test_without_a_key_no_pod_is_skipped() -> None:
    assert not is_skipped(ProxySettings(skip_label_key=""), pb.PodSandboxConfig(labels={"": "true"}))


def test_all_pods_of_the_runtime_are_adopted_and_missing_pods_end(world: Proxied) -> None:
    assert world.proxy is not None
    store, adoption = world.proxy.store, world.proxy.adoption
    pod = world.run_pod(cri=world.direct)
    created_id = world.create(pod, cri=world.direct)
    adoption.everything(late=False)
    record = store.container(created_id)
    assert record is not None
    assert (record.pod_id, record.reported_step) == (pod, CREATED)
    world.direct.call("RemoveContainer", container_id=created_id)
    adoption.everything(late=False)
    assert store.container(created_id) is None
    world.direct.call("RemovePodSandbox", pod_sandbox_id=pod)
    adoption.everything(late=False)
    assert store.pod(pod) is None


def test_a_stopped_pod_is_known_and_no_longer_reported(world: Proxied) -> None:
    assert world.proxy is not None
    pod = world.run_pod(cri=world.direct)
    world.direct.call("StopPodSandbox", pod_sandbox_id=pod)
    assert world.proxy.adoption.pod(pod).reported_step == STOPPED


def test_a_pod_with_an_unknown_description_does_not_prevent_other_adoptions(
    world: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert world.proxy is not None
    adoption, pods = world.proxy.adoption, [world.run_pod(world.pod_config(name), world.direct) for name in "ab"]
    take = adoption.pod

    def breaks(pod_id: str, *, late: bool = True) -> object:
        if pod_id == pods[0]:
            raise UnicodeError("half a character")
        return take(pod_id, late=late)

    monkeypatch.setattr(adoption, "pod", breaks)
    adoption.everything(late=False)
    assert world.proxy.store.pod(pods[0]) is None
    assert world.proxy.store.pod(pods[1]) is not None
    adoption.everything(late=False)
    assert caplog.text.count("cannot adopt") == 1, "it is said once, and not once a minute"


def test_a_pod_that_two_calls_find_is_adopted_once(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = world.attach(Recorder())
    assert world.proxy is not None
    context, pod = world.proxy.exits.context, world.run_pod()
    created_id = world.create(pod, cri=world.direct)
    ask, both = context.queries.container, threading.Barrier(2)

    def at_once(runtime_id: str) -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(1)
        return ask(runtime_id)

    monkeypatch.setattr(
        type(context.queries), "container", lambda self, runtime_id, timeout_s=None: at_once(runtime_id)
    )
    with ThreadPoolExecutor(2) as pool:
        first, second = (actual[0] for actual in pool.map(context.container, [created_id, created_id]))
    assert first is not None
    assert first is second
    assert plugin.of("c") == ["post_create"]


def test_a_plugin_that_joins_during_an_adoption_receives_the_pod_once(
    world: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.proxy is not None
    domain, joiner = world.proxy.domain, Recorder()
    pod, tell = world.run_pod(cri=world.direct), domain.run_pod
    joining = threading.Thread(target=lambda: world.attach(joiner))

    def late(*args: Any) -> None:
        joining.start()
        joining.join(0.5)  # without a block it is through by now
        tell(*args)

    monkeypatch.setattr(domain, "run_pod", late)
    world.proxy.adoption.pod(pod)
    joining.join()
    pods, _ = joiner.synchronized[-1]
    assert pods + [name for event, name in joiner.events if event == "run_pod"] == ["pod"]


def test_an_adoption_that_reaches_its_deadline_continues_later(world: Proxied) -> None:
    assert world.proxy is not None
    pod = world.run_pod(cri=world.direct)
    with pytest.raises(DeadlineExceeded):
        world.proxy.adoption.everything(late=False, deadline=0.0)
    assert world.proxy.store.pod(pod) is None


def test_a_runtime_that_starts_during_admission_is_queried(world: Proxied) -> None:
    world.stop()
    pod = world.run_pod(cri=world.direct)
    world.stop_runtime()

    def admit(_: object) -> None:
        world.start_runtime()
        wait_for(lambda: world.proxy is not None and world.proxy.connected, "the connection")

    proxy = world.start(admit=admit)
    wait_for(lambda: proxy.store.pod(pod), "the pod of the runtime")


def test_a_runtime_that_is_not_ready_is_queried_again_and_logged_once(
    world: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """containerd is not ready until its CRI service has loaded its containers."""
    world.stop()
    pod = world.run_pod(cri=world.direct)
    lists, refused = RuntimeQueries.lists, list[int]()

    def not_yet(self: RuntimeQueries) -> Any:
        if len(refused) < 3:
            refused.append(1)
            raise RpcError(14, "server is not initialized yet")
        return lists(self)

    monkeypatch.setattr(RuntimeQueries, "lists", not_yet)
    proxy = world.start()
    wait_for(lambda: proxy.store.pod(pod), "the pod of the runtime")
    assert len(refused) == 3
    assert caplog.text.count("cannot list the runtime") == 1


def test_changes_made_without_the_proxy_are_found_periodically(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    world.stop()
    monkeypatch.setattr("nri.proxy.events.adoption.INTERVAL_S", 0.1)
    proxy = world.start()
    plugin = world.attach(Recorder())
    pod = world.run_pod(cri=world.direct)
    wait_for(lambda: plugin.of("pod") == ["run_pod"], "the event of the pod")
    world.direct.call("StopPodSandbox", pod_sandbox_id=pod)
    world.direct.call("RemovePodSandbox", pod_sandbox_id=pod)
    wait_for(lambda: plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"], "the events of its end")
    wait_for(lambda: proxy.store.pods() == [], "its record, dropped")


def test_a_proxy_can_stop_while_its_runtime_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "CALL_TIMEOUT_S", 300.0)
    event, end = threading.Event(), threading.Event()

    class Hangs(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            def hang(_: bytes, context: grpc.ServicerContext) -> bytes:
                event.set()
                end.wait(60)
                return b""

            return grpc.unary_unary_rpc_method_handler(hang)

    world = Proxied(tmp_path)
    proxy = world.start()
    server = bind(world.settings.runtime_endpoint, ThreadPoolExecutor(4), [Hangs()])
    server.start()
    try:
        assert event.wait(20)
        begin = time.monotonic()
        proxy.stop()
        assert time.monotonic() - begin < 60
        assert not [row for row in threading.enumerate() if row.name.startswith("nri-proxy")]
    finally:
        end.set()
        server.stop(0).wait()
        world.close()
