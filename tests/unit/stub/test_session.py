"""Configure, subscriptions, updates from the plugin, the mirror, background work, concurrency."""

from __future__ import annotations

import threading
import time
from typing import Literal

import pytest

import nri
from nri.api import messages as m
from nri.ttrpc import Code
from tests.support.plugin_thread import plugin_thread

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
CREATE = m.CreateContainerRequest(pod=POD, container=CONTAINER)
START = m.StartContainerRequest(pod=POD, container=CONTAINER)


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.005)


class Names(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)


# -- Configure and subscription ---------------------------------------------------------------------------------------


def test_registration_tells_name_index_and_version() -> None:
    with plugin_thread(Names(), index="42") as running:
        request = running.runtime.register()
        assert (request.plugin_name, request.plugin_idx, request.NRI_version) == ("names", "42", "v0.12.5")


def test_the_subscription_is_what_is_overridden() -> None:
    with plugin_thread(Names()) as running:
        assert running.runtime.begin().events == 0x8


def test_the_runtime_is_known_in_configure() -> None:
    seen = []

    class Asks(Names):
        def configure(self):
            seen.append(
                (self.runtime.name, self.runtime.version, self.runtime.nri_version, self.runtime.request_timeout_s)
            )

    with plugin_thread(Asks()) as running:
        running.runtime.begin(name="containerd", version="v2.4.2", nri="v0.12.3")
    assert seen == [("containerd", "v2.4.2", "v0.12.3", 2.0)]


def test_configure_may_narrow_the_subscription() -> None:
    class Narrow(Names):
        def configure(self):
            return nri.EventMask.parse("CreateContainer")

        def start_container(self, pod, container): ...

    with plugin_thread(Narrow()) as running:
        assert running.runtime.begin().events == 0x8


def test_configure_may_not_ask_for_what_is_not_handled() -> None:
    class Wide(Names):
        def configure(self):
            return nri.EventMask.parse("all")

    with plugin_thread(Wide()) as running:
        running.runtime.register()
        assert "events without a handler: RunPodSandbox" in running.runtime.configure().message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_a_command_line_may_narrow_the_subscription() -> None:
    class Two(Names):
        def start_container(self, pod, container): ...

    with plugin_thread(Two(), events=nri.EventMask.parse("pod,StartContainer")) as running:
        assert running.runtime.begin().events == 0x20


@pytest.mark.parametrize(
    ("nri_version", "version", "mask"),
    [
        ("", "1.7.24~ds1", 0x8),
        ("v0.8.0", "2.1.9", 0x8),
        ("v0.10.0", "2.2.0", 0x2808),
        ("", "v2.2.1", 0x2808),
        ("v0.12.5", "x", 0x2808),
    ],
)
def test_the_mask_is_cut_to_what_the_runtime_knows(nri_version: str, version: str, mask: int) -> None:
    class New(Names):
        def update_pod_sandbox(self, pod, overhead, resources): ...

        def validate_container_adjustment(self, request): ...

    with plugin_thread(New()) as running:
        assert running.runtime.begin(name="containerd", version=version, nri=nri_version).events == mask


def test_a_mask_cut_to_nothing_fails_by_name() -> None:
    class OnlyNew(nri.Plugin):
        def validate_container_adjustment(self, request): ...

    with plugin_thread(OnlyNew()) as running:
        running.runtime.register()
        response = running.runtime.configure(name="containerd", version="1.7.24", nri="")
        assert "containerd 1.7.24 knows none of the events of OnlyNew: ValidateContainerAdjustment" in response.message
        assert isinstance(running.ended(), nri.RegistrationError)


def test_a_plugin_that_only_synchronizes_never_answers_zero_which_would_mean_everything() -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers): ...

    with plugin_thread(Syncs()) as running:
        assert running.runtime.begin().events == 0x4


def test_a_plugin_without_any_handler_is_refused() -> None:
    class Nothing(nri.Plugin): ...

    with plugin_thread(Nothing()) as running:
        running.runtime.register()
        assert "handles no event" in running.runtime.configure().message


def test_the_failure_policy_is_declared() -> None:
    class Strict(Names):
        failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)

    with plugin_thread(Strict()) as running:
        policy = running.runtime.begin().failure_policy
        assert policy.fail_request and policy.keep_connected


def test_without_a_failure_policy_none_is_declared() -> None:
    with plugin_thread(Names()) as running:
        assert not running.runtime.begin().HasField("failure_policy")


def test_a_configure_that_raises_fails_with_its_text_and_may_be_tried_again() -> None:
    class Flaky(Names):
        def configure(self):
            raise OSError("the API server is not there yet")

    with plugin_thread(Flaky()) as running:
        running.runtime.register()
        assert "not there yet" in running.runtime.configure().message
        running.runtime.close()
        assert isinstance(running.ended(), nri.ConnectionClosed)


def test_a_plugin_that_is_never_synchronized_is_ready_at_its_first_event() -> None:
    """Runtimes on NRI 0.6.1 do not synchronize the plugins that they launch themselves."""
    ready: list[str] = []
    with plugin_thread(Names(), on_ready=lambda: ready.append("ready")) as running:
        running.runtime.register()
        running.runtime.configure(nri="")
        assert ready == []
        assert not running.runtime.call("CreateContainer", CREATE).code
        assert not running.runtime.call("CreateContainer", CREATE).code
        wait_for(lambda: ready, "readiness")
        assert (ready, running.session.stage) == (["ready"], "ready")


# -- configuration ----------------------------------------------------------------------------------------------------


class Pin(Names):
    class Config:
        cpus: str = "0-3"
        mode: Literal["soft", "hard"] = "soft"
        zones: list[str] = []  # noqa: RUF012  # that each plugin gets its own is what is tested


def configured(text: str, **attributes) -> Pin:
    plugin = type("PinX", (Pin,), attributes)()
    with plugin_thread(plugin) as running:
        running.runtime.begin(config=text)
    return plugin


def test_without_configuration_the_defaults_hold_and_are_not_shared() -> None:
    first, second = configured(""), configured("")
    first.config.zones.append("a")
    assert (first.config.cpus, second.config.zones) == ("0-3", [])


@pytest.mark.parametrize("text", ["cpus: '4-7'\nzones: [b]\n", '{"cpus": "4-7", "zones": ["b"]}'])
def test_the_runtimes_configuration_is_json_or_yaml(text: str) -> None:
    plugin = configured(text)
    assert (plugin.config.cpus, plugin.config.zones, plugin.config.mode) == ("4-7", ["b"], "soft")


def test_a_configuration_that_does_not_fit_names_source_and_key() -> None:
    with plugin_thread(Pin()) as running:
        running.runtime.register()
        message = running.runtime.configure("cpu: '4-7'").message
        outcome = running.ended()
    assert isinstance(outcome, nri.ConfigError), repr(outcome)
    assert "the runtime's configuration" in message and "cpu" in message and "cpus" in message, message


def test_without_a_config_class_the_text_is_passed_on() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin(config="anything: at all")
    assert plugin.config == "anything: at all"


# -- updates from the plugin ------------------------------------------------------------------------------------------


def test_an_update_outside_handlers_goes_out_at_once() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1").set_cpu_shares(5))
        request = running.runtime.request()
        sent = m.UpdateContainersRequest.FromString(request.payload)
        running.runtime.answer(request, m.UpdateContainersResponse(failed=sent.update))
        assert request.method == "UpdateContainers"
        assert [u.container_id for u in pending.result(5)] == ["c1"]


def test_an_update_in_a_handler_is_sent_after_the_reply() -> None:
    results = []

    class Updates(Names):
        def start_container(self, pod, container):
            pending = self.runtime.update(nri.Update("c1").set_cpu_shares(5))
            pending.add_done_callback(lambda p: results.append(p.result()))

    with plugin_thread(Updates()) as running:
        running.runtime.begin()
        data = running.runtime.call("StartContainer", START)
        assert not data.code
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        wait_for(lambda: results, "the callback of the update")
    assert results == [[]]


def test_waiting_for_an_update_in_its_own_handler_raises_at_once() -> None:
    class Waits(Names):
        def start_container(self, pod, container):
            self.runtime.update(nri.Update("c1").set_cpu_shares(5)).result()

    with plugin_thread(Waits()) as running:
        running.runtime.begin()
        assert "do not wait here" in running.runtime.call("StartContainer", START).message
        assert running.runtime.request().method == "UpdateContainers", "the update itself is still sent"


def test_an_update_can_be_awaited_from_a_background_task() -> None:
    import asyncio

    results = []

    class Awaits(Names):
        @nri.every(3600)
        async def rebalance(self):
            await asyncio.sleep(0)
            results.append(await self.runtime.update(nri.Update("c1").set_cpu_shares(5)))

    plugin = Awaits()
    from nri.stub.session.background import Background

    background = Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.begin()
        running.runtime.answer(
            running.runtime.request(), m.UpdateContainersResponse(failed=[m.ContainerUpdate(container_id="c1")])
        )
        wait_for(lambda: results, "the await")
        background.stop()
    assert [u.container_id for u in results[0]] == ["c1"]


def test_what_a_task_asks_for_that_a_handler_has_left_behind_is_sent() -> None:
    import asyncio

    results = []

    class LeavesBehind(Names):
        async def start_container(self, pod, container):
            async def later():
                await asyncio.sleep(0.02)
                results.append(await self.runtime.update(nri.Update("c1").set_cpu_shares(5)))

            self.task = asyncio.create_task(later())

    with plugin_thread(LeavesBehind()) as running:
        running.runtime.begin()
        assert not running.runtime.call("StartContainer", START).code
        running.runtime.answer(running.runtime.request(), m.UpdateContainersResponse())
        wait_for(lambda: results, "the answer")
    assert results == [[]]


@pytest.mark.parametrize("value", [1, "yes"])
def test_a_mirror_is_kept_for_whatever_means_yes(value) -> None:
    plugin = type("Mirrors", (Names,), {"mirror": value})()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        assert plugin.state.pods is not None


def test_a_refused_update_is_an_rpc_error() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.answer(running.runtime.request(), code=Code.UNKNOWN, text="no such container")
        with pytest.raises(nri.RpcError, match="no such container"):
            pending.result(5)


def test_a_pending_update_fails_when_the_connection_ends() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        pending = plugin.runtime.update(nri.Update("c1"))
        running.runtime.close()
        with pytest.raises(nri.ConnectionClosed):
            pending.result(5)


def test_an_update_that_is_never_answered_is_not_waited_for_without_end() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        with pytest.raises(nri.DeadlineExceeded):
            plugin.runtime.update(nri.Update("c1")).result(0.05)


def test_updates_without_a_connection_or_a_container_are_errors() -> None:
    plugin = Names()
    with pytest.raises(nri.ConnectionClosed):
        plugin.runtime.update(nri.Update("c1"))
    with pytest.raises(nri.NriError, match="names no container"):
        plugin.runtime.update(m.ContainerUpdate())
    with pytest.raises(nri.NriError, match="names no container"):
        plugin.runtime.evict("", "why")


def test_an_eviction_reaches_the_runtime() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        plugin.runtime.evict("c1", "too greedy")
        sent = m.UpdateContainersRequest.FromString(running.runtime.request().payload)
        assert (sent.evict[0].container_id, sent.evict[0].reason) == ("c1", "too greedy")


# -- mirror -----------------------------------------------------------------------------------------------------------


def test_the_mirror_follows_synchronize_and_events() -> None:
    class Mirrors(Names):
        mirror = True

    plugin = Mirrors()
    with plugin_thread(plugin) as running:
        runtime = running.runtime
        runtime.begin()
        assert plugin.state.pods == {} == plugin.state.containers
        runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
        runtime.call("CreateContainer", CREATE)
        assert list(plugin.state.containers) == [], "a container that may still fail to be created is not there yet"
        runtime.call("PostCreateContainer", m.PostCreateContainerRequest(pod=POD, container=CONTAINER))
        assert plugin.state.pod_of(plugin.state.containers["c0"]).name == "web"
        stopped = m.Container(id="c0", pod_sandbox_id="p0", state=m.ContainerState.CONTAINER_STOPPED)
        runtime.call("StopContainer", m.StopContainerRequest(pod=POD, container=stopped))
        assert plugin.state.containers["c0"].state == m.ContainerState.CONTAINER_STOPPED
        runtime.call("RemovePodSandbox", m.RemovePodSandboxRequest(pod=POD))
        assert plugin.state.pods == {} == plugin.state.containers


def test_synchronize_replaces_the_mirror_before_the_handler_sees_it() -> None:
    seen = []

    class Mirrors(Names):
        mirror = True

        def synchronize(self, pods, containers):
            seen.append((list(self.state.pods), list(self.state.containers)))

    plugin = Mirrors()
    with plugin_thread(plugin) as running:
        running.runtime.register()
        running.runtime.configure()
        running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD]))
    assert seen == [(["p0"], ["c0"]), (["p0"], [])]


# -- background work, concurrency, end --------------------------------------------------------------------------------


def test_background_work_starts_once_synchronized_survives_errors_and_stops() -> None:
    from nri.stub.session.background import Background

    runs = []

    class Works(Names):
        @nri.every(0.01)
        def work(self):
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("the first time fails")

    plugin = Works()
    background = Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.register()
        running.runtime.configure()
        assert runs == [], "background work ran before Synchronize"
        running.runtime.call("Synchronize", m.SynchronizeRequest())
        wait_for(lambda: len(runs) >= 3, "background work after an error")
        background.stop()
        after = len(runs)
        time.sleep(0.05)
        assert len(runs) == after, "background work goes on after stop"


def test_an_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        nri.every(0)


def test_handlers_run_one_at_a_time_also_when_a_runtime_does_not_wait() -> None:
    at_once, most, lock = [0], [0], threading.Lock()

    class Slow(nri.Plugin):
        max_concurrent = 3  # an attribute like any other

        def start_container(self, pod, container):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            time.sleep(0.02)
            with lock:
                at_once[0] -= 1

    with plugin_thread(Slow()) as running:
        running.runtime.begin()
        for _ in range(3):
            running.runtime.send("StartContainer", START)
        for _ in range(3):
            assert not running.runtime.response().code
    assert most[0] == 1


def test_stopping_answers_the_request_at_hand() -> None:
    started, release = threading.Event(), threading.Event()

    class Slow(nri.Plugin):
        def start_container(self, pod, container):
            started.set()
            release.wait(10)

    with plugin_thread(Slow()) as running:
        running.runtime.begin()
        running.runtime.send("StartContainer", START)
        assert started.wait(10)
        running.session.stop()
        release.set()
        assert not running.runtime.response().code
        assert running.ended() == "closed"


def test_shutdown_and_closed_are_called() -> None:
    seen = []

    class Ends(Names):
        def shutdown(self):
            seen.append("shutdown")
            raise ValueError("nobody waits for this")

        def closed(self):
            seen.append(f"closed, connected {self.runtime.connected}")

    with plugin_thread(Ends()) as running:
        running.runtime.begin()
        assert not running.runtime.call("Shutdown").code
        running.runtime.close()
        running.ended()
    assert seen == ["shutdown", "closed, connected False"]
