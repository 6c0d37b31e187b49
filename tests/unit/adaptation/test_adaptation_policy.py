"""Effects of the operator's policy and of a plugin's declaration, with real plugins."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

import nri
from nri.adaptation import Adaptation
from nri.adaptation.audit.shadow import ShadowReport
from nri.errors import PluginError, PluginRejected, PluginTimeout, PluginUnavailable
from nri.metrics import Observer
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.waiting import wait_for


class Sleepy(nri.Plugin):
    """Answers at once or, if `silent`, once `go` is set; counts calls."""

    def __init__(self, *, silent: bool = False) -> None:
        self.go = threading.Event()
        if not silent:
            self.go.set()
        self.calls = 0

    def _work(self) -> None:
        self.calls += 1
        self.go.wait(20)

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._work()

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._work()

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._work()


class Env(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("A", "1").set_memory_limit(1 << 20)


@contextmanager
def runtime_with(
    policy: str, plugin: nri.Plugin | None = None, timeout_s: float = 0.05, **options: object
) -> Iterator[FakeRuntime]:
    with FakeRuntime(policy=policy, **options) as runtime:
        if plugin is not None:
            runtime.add(plugin)
        yield runtime.timeout(timeout_s)
        if isinstance(plugin, Sleepy):
            plugin.go.set()


def test_fail_request_fails_only_the_named_events() -> None:
    policy = '["10-sleepy"]\nfail_request = ["StartContainer"]\n'
    with runtime_with(policy, Sleepy(silent=True)) as runtime:
        with pytest.raises(PluginTimeout) as caught:
            runtime.start_container()
        assert str(caught.value).startswith("plugin 10-sleepy failed to handle StartContainer request: ")
        runtime.stop_container()
        assert runtime.health("10-sleepy").state == "late"


def test_a_timeout_per_plugin_and_event_is_applied() -> None:
    policy = '["10-sleepy"]\ntimeout = { default = "20ms", StartContainer = "20s" }\nfail_request = true\n'
    plugin = Sleepy(silent=True)
    with runtime_with(policy, plugin, timeout_s=20) as runtime:
        answering = threading.Timer(0.1, plugin.go.set)
        answering.start()
        runtime.start_container()
        answering.join()
        plugin.go.clear()
        with pytest.raises(PluginTimeout):
            runtime.stop_container()


def test_keep_connected_false_disconnects_a_late_plugin() -> None:
    with runtime_with('["10-sleepy"]\nkeep_connected = false\n', Sleepy(silent=True)) as runtime:
        runtime.start_container()
        assert runtime.health("10-sleepy").state == "gone"


def test_an_absent_required_plugin_refuses_starting_events_and_passes_ending_ones() -> None:
    with runtime_with('["10-sleepy"]\nrequired = true\n') as runtime:
        for event in ("run_pod_sandbox", "create_container", "start_container", "update_container"):
            with pytest.raises(PluginUnavailable, match=r"plugin 10-sleepy: required for .*, but not connected"):
                getattr(runtime, event)()
        with pytest.raises(PluginUnavailable):
            runtime.update_pod_sandbox()
        for event in ("post_start_container", "stop_container", "remove_container", "stop_pod_sandbox"):
            getattr(runtime, event)()
        assert runtime.adaptation.ready() is False
        runtime.add(Sleepy())
        runtime.start_container()
        assert runtime.adaptation.ready()


def test_a_disconnected_required_plugin_refuses_events_at_once() -> None:
    with runtime_with('["10-sleepy"]\nrequired = true\n', Sleepy()) as runtime:
        runtime.start_container()
        runtime.disconnect("10-sleepy")
        with pytest.raises(PluginUnavailable):
            runtime.start_container()
        runtime.stop_container()


class Joining(nri.Plugin):
    """Stays in Synchronize until `go` is set, and fails there if `fails` is set."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.inside, self.go = threading.Event(), threading.Event()
        self.started: list[str] = []

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.inside.set()
        self.go.wait(20)
        if self.fails:
            raise RuntimeError("no")

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.started.append(container.name)


def started_while_joining(plugin: Joining) -> Future[None]:
    """What becomes of a start that comes while a required plugin takes the runtime's state in."""
    with runtime_with('["10-joining"]\nrequired = true\n', timeout_s=20) as runtime, ThreadPoolExecutor(2) as pool:
        joined = pool.submit(runtime.add, plugin)
        assert plugin.inside.wait(20)
        start = pool.submit(runtime.start_container)
        with pytest.raises(TimeoutError):
            start.result(0.1)
        plugin.go.set()
        wait([start, joined], 20)
        return start


def test_an_event_waits_for_a_joining_required_plugin() -> None:
    plugin = Joining()
    assert started_while_joining(plugin).result() is None
    assert len(plugin.started) == 1


def test_an_event_is_refused_if_the_awaited_required_plugin_fails_to_join() -> None:
    refusal = started_while_joining(Joining(fails=True)).exception()
    assert isinstance(refusal, PluginUnavailable)
    assert "plugin 10-joining: required for StartContainer, but " in str(refusal)


def test_a_late_required_plugin_fails_the_request_with_its_name() -> None:
    with runtime_with('["10-sleepy"]\nrequired = true\n', Sleepy(silent=True)) as runtime:
        with pytest.raises(PluginTimeout, match="plugin 10-sleepy failed to handle StartContainer request"):
            runtime.start_container()
        runtime.stop_container()


def test_exempt_namespaces_do_not_need_the_required_plugin() -> None:
    policy = '["10-sleepy"]\nrequired = { exempt_namespaces = ["kube-*"] }\n'
    with runtime_with(policy) as runtime:
        runtime.run_pod_sandbox(make_pod(namespace="kube-system"))
        with pytest.raises(PluginUnavailable):
            runtime.run_pod_sandbox(make_pod(namespace="web"))


def test_the_breaker_skips_a_silent_plugin_and_retries_it() -> None:
    policy = '["10-sleepy"]\nbreaker = { misses = 2, retry = "300ms" }\n'
    plugin = Sleepy(silent=True)
    with runtime_with(policy, plugin, timeout_s=0.02) as runtime:
        for _ in range(2):
            runtime.start_container()
        assert runtime.health("10-sleepy").state == "open"
        plugin.go.set()
        runtime.timeout(20)
        wait_for(lambda: runtime.start_container() or runtime.health("10-sleepy").state == "active", "it is back")


def test_a_required_plugin_with_an_open_breaker_refuses_events() -> None:
    policy = '["10-sleepy"]\nbreaker = { misses = 1, retry = "60s" }\nrequired = true\n'
    with runtime_with(policy, Sleepy(silent=True), timeout_s=0.02) as runtime:
        with pytest.raises(PluginTimeout):
            runtime.start_container()
        with pytest.raises(PluginUnavailable, match="skipped after 1 request without an answer"):
            runtime.start_container()
        runtime.stop_container()


def test_an_error_of_a_handler_is_an_answer_and_not_a_miss() -> None:
    class Refuses(nri.Plugin):
        name = "sleepy"

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            raise nri.Reject("no")

    with runtime_with('["10-sleepy"]\nbreaker = { misses = 1, retry = "60s" }\n', Refuses(), timeout_s=20) as runtime:
        for _ in range(3):
            with pytest.raises(PluginRejected, match=r"^plugin 10-sleepy refused: no$"):
                runtime.start_container()
        assert runtime.health("10-sleepy").state == "active"


class Reports(Observer):
    def __init__(self) -> None:
        self.reports: list[ShadowReport] = []

    def record_shadow(self, report: object) -> None:
        assert isinstance(report, ShadowReport)
        self.reports.append(report)


def test_a_shadow_plugin_is_reported_and_never_applied(caplog: pytest.LogCaptureFixture) -> None:
    observer = Reports()
    with (
        caplog.at_level(logging.INFO, "nri.adaptation"),
        runtime_with('["10-env"]\nshadow = true\n', Env(), timeout_s=20, observer=observer) as runtime,
    ):
        assert runtime.create_container(make_pod(name="web")).env == {}
    (report,) = observer.reports
    assert {change.field for change in report.changes} == {"Env", "MemLimit"}
    assert "shadow plugin 10-env at CreateContainer of default/web" in caplog.text


def test_a_forbidden_field_fails_the_request_and_keeps_the_plugin() -> None:
    with runtime_with('["10-env"]\nallow = { fields = ["Env"] }\n', Env(), timeout_s=20) as runtime:
        with pytest.raises(PluginError, match="plugin 10-env: its policy does not allow it to set MemLimit"):
            runtime.create_container()
        assert runtime.health("10-env").state == "active"


def test_a_change_in_a_forbidden_namespace_fails_the_request() -> None:
    with runtime_with('["10-env"]\nallow = { namespaces = ["web"] }\n', Env(), timeout_s=20) as runtime:
        assert runtime.create_container(make_pod(namespace="web")).env == {"A": "1"}
        with pytest.raises(PluginError, match='in namespace "other"'):
            runtime.create_container(make_pod(namespace="other"), make_container())


def test_a_forbidden_event_is_not_sent() -> None:
    plugin = Sleepy()
    with runtime_with('["10-sleepy"]\nallow = { events = ["StopContainer"] }\n', plugin, timeout_s=20) as runtime:
        runtime.start_container()
        assert plugin.calls == 0
        runtime.stop_container()
        assert plugin.calls == 1


def test_filters_are_applied_before_the_call() -> None:
    plugin = Sleepy()
    policy = '["10-sleepy"]\nfilters = { namespace = ["web"], label = ["app=shop"] }\n'
    with runtime_with(policy, plugin, timeout_s=20) as runtime:
        runtime.run_pod_sandbox(make_pod(namespace="web"))
        runtime.run_pod_sandbox(make_pod(namespace="web", labels={"app": "shop"}))
        runtime.run_pod_sandbox(make_pod(namespace="other", labels={"app": "shop"}))
        assert plugin.calls == 1


def test_allow_also_limits_unsolicited_updates_and_evictions() -> None:
    class Asks(nri.Plugin):
        name = "env"

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    plugin = Asks()
    with runtime_with('["10-env"]\nallow = { fields = ["CPUShares"] }\n', plugin, timeout_s=20) as runtime:
        runtime.create_container(make_pod(), make_container(id="c1"))
        plugin.runtime.update(nri.Update("c1").set_cpu_shares(5)).result(timeout=10)
        with pytest.raises(nri.RpcError, match="its policy does not allow it to set MemLimit"):
            plugin.runtime.update(nri.Update("c1").set_memory_limit(5)).result(timeout=10)
        with pytest.raises(nri.RpcError, match="its policy does not allow it to evict"):
            plugin.runtime.evict("c1", "no").result(timeout=10)
        assert [update.cpu_shares for update in runtime.updates] == [5]
        assert runtime.evictions == []


def test_a_changed_policy_applies_to_later_events(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    adaptation = Adaptation(
        "test", "1", synchronize=lambda: ([], []), update=lambda _: None, disable_connections=True,
        plugin_path="/nonexistent", policy_path=str(path),
    )  # fmt: skip
    with adaptation:
        adaptation.run_pod_sandbox(make_pod())
        path.write_text('["10-must"]\nrequired = true\n')
        os.utime(path, ns=(1, 1))

        def refused() -> bool:
            try:
                adaptation.run_pod_sandbox(make_pod())
            except PluginUnavailable:
                return True
            return False

        wait_for(refused, "the changed policy is in force")


@pytest.mark.parametrize("keep", [True, False])
def test_a_declared_failure_policy_applies_without_a_policy_of_the_operator(keep: bool) -> None:
    class Declares(Sleepy):
        name = "sleepy"
        failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=keep)

    plugin = Declares(silent=True)
    with FakeRuntime(compat="reference") as runtime:
        runtime.add(plugin).timeout(0.02)
        with pytest.raises(PluginTimeout):
            runtime.start_container()
        assert runtime.health("10-sleepy").state == ("late" if keep else "gone")
        plugin.go.set()
