"""The runtime for tests of plugins, used like a plugin's author uses it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nri
import nri.testing
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.errors import ConfigError, LocalProtocolError, RegistrationError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.waiting import wait_for


class PodName(nri.Plugin):
    """The plugin of the documentation."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("POD_NAME", pod.name)

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.seen = [container.name for container in containers]


def test_the_example_of_the_documentation_works(nri_runtime: FakeRuntime) -> None:
    reply = nri_runtime.add(PodName(), idx="10").create_container(make_pod(name="web"), make_container())
    assert reply.env == {"POD_NAME": "web"}


def test_pod_and_container_are_optional(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(PodName())
    assert nri_runtime.create_container().env == {"POD_NAME": "pod"}
    nri_runtime.create_container(make_pod(name="second"))
    assert nri_runtime.create_container().env == {"POD_NAME": "second"}, "the last pod is the default"


def test_updates_of_synchronize_apply_when_add_returns(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Updates(PodName):
        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:  # type: ignore[override]
            return [nri.Update(container).set_cpu_shares(5) for container in containers]

    updates = parts_of(nri_runtime.adaptation).handshake.updates
    apply = updates.apply_synchronize

    def slowly(*argument: Any) -> object:
        time.sleep(0.1)
        return apply(*argument)

    monkeypatch.setattr(updates, "apply_synchronize", slowly)
    nri_runtime.create_container(None, make_container(id="c"))
    nri_runtime.add(Updates())
    assert [update.container_id for update in nri_runtime.updates] == ["c"]


def test_a_reply_reads_like_an_adjustment(nri_runtime: FakeRuntime) -> None:
    reply = nri_runtime.add(PodName()).create_container()
    assert reply.adjust == nri.Adjustment.of(reply.reply.adjust)
    assert "POD_NAME" in repr(reply)
    assert nri.env_of(reply.container) == {"POD_NAME": "pod"}
    with pytest.raises(AttributeError):
        reply.nothing  # noqa: B018


def test_a_restart_synchronizes_plugins_again(nri_runtime: FakeRuntime) -> None:
    plugin = PodName()
    nri_runtime.add(plugin)
    nri_runtime.create_container(None, make_container(name="app"))
    nri_runtime.restart()
    assert plugin.seen == ["app"]
    assert nri_runtime.create_container().env == {"POD_NAME": "pod"}


def test_disconnect_is_seen_by_both_sides(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(PodName()).disconnect()
    assert nri_runtime.health("10-pod-name").state == "gone"
    assert nri_runtime.create_container().env == {}


def test_a_plugin_that_exceeds_the_timeout_is_late(nri_runtime: FakeRuntime) -> None:
    go = threading.Event()

    class Slow(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            go.wait(20)

    nri_runtime.add(Slow()).timeout(0.02).start_container()
    assert nri_runtime.health("10-slow").state == "late"
    go.set()


def test_add_raises_if_the_plugin_is_refused(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(PodName())
    with pytest.raises(RegistrationError, match="connected already"):
        nri_runtime.add(PodName())
    with pytest.raises(RegistrationError, match="invalid plugin index"):
        nri_runtime.add(PodName(), idx="1")


def test_a_class_instead_of_an_instance_is_an_error(nri_runtime: FakeRuntime) -> None:
    with pytest.raises(LocalProtocolError, match=r"takes an instance of nri.Plugin, .*: write add\(PodName\(\)\)"):
        nri_runtime.add(PodName)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match=r"not 'pod_name'$"):
        nri_runtime.add("pod_name")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "argument", "text"),
    [
        ("idx", 10, 'add() takes idx as text, not 10: write idx="10"'),
        ("idx", 5, 'add() takes idx as text, not 5: write idx="05"'),
        ("name", 5, 'add() takes name as text, not 5: write name="5"'),
        ("config", {"a": 1}, "add() takes config as text, not {'a': 1}: write config=json.dumps(...)"),
        ("config", None, "add() takes config as text, not None: write config=json.dumps(...)"),
    ],
)
def test_an_option_of_a_wrong_type_is_an_error_with_the_right_call(
    nri_runtime: FakeRuntime, option: str, argument: Any, text: str
) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        nri_runtime.add(PodName(), **{option: argument})
    assert str(caught.value) == text
    assert nri_runtime.plugins == []


def test_configuration_reaches_the_plugin(nri_runtime: FakeRuntime) -> None:
    class Pin(PodName):
        class Config:
            cpus: str = "0-3"

        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().set_cpuset_cpus(self.config.cpus)

    nri_runtime.add(Pin(), config="cpus: 4-7\n")
    assert nri_runtime.create_container().cpuset_cpus == "4-7"


class Tunable(nri.Plugin):
    class Config:
        variable: str = "POD"

    config: Config

    def __init__(self) -> None:
        self.seen: list[str] = []

    def configure(self) -> None:
        if self.config.variable == "BAD":
            raise ValueError("not this one")
        self.seen.append(self.config.variable)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env(self.config.variable, pod.name)


def test_a_reload_changes_the_configuration_of_one_plugin_or_of_all(nri_runtime: FakeRuntime) -> None:
    one, other = Tunable(), Tunable()
    nri_runtime.add(one, "10").add(other, "20", "other", config="variable: A")
    assert nri_runtime.reload("variable: B", "10-tunable") is nri_runtime
    assert (one.seen, other.seen) == (["POD", "B"], ["A"])
    assert {*nri_runtime.create_container().env} == {"A", "B"}
    nri_runtime.reload("variable: C")
    assert (one.seen[-1], other.seen[-1]) == ("C", "C")


def test_a_reloaded_configuration_survives_a_restart_of_the_runtime(nri_runtime: FakeRuntime) -> None:
    plugin = Tunable()
    nri_runtime.add(plugin, config="variable: A").reload("variable: B").restart()
    assert plugin.seen == ["A", "B", "B"]


def test_an_invalid_reload_raises_and_changes_no_configuration(nri_runtime: FakeRuntime) -> None:
    plugin = Tunable()
    nri_runtime.add(plugin, config="variable: A")
    with pytest.raises(nri.ConfigError, match="varable"):
        nri_runtime.reload("varable: B")
    assert (plugin.config.variable, plugin.seen) == ("A", ["A"])
    with pytest.raises(ValueError, match="not this one"):
        nri_runtime.reload("variable: BAD")


def test_a_reload_requires_a_connected_plugin_and_a_string(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Tunable()).disconnect()
    with pytest.raises(nri.NriError, match="10-tunable is not connected"):
        nri_runtime.reload("variable: B")
    with pytest.raises(nri.NriError, match=r"reload\(\) takes config as text, not .*json.dumps"):
        nri_runtime.reload({"variable": "B"})  # type: ignore[arg-type]


def test_updates_change_the_runtimes_containers(nri_runtime: FakeRuntime) -> None:
    plugin = PodName()
    nri_runtime.add(plugin).create_container(None, make_container(id="c"))
    plugin.runtime.update(nri.Update("c").set_cpu_shares(5)).result(timeout=10)
    assert nri_runtime.containers["c"].linux.resources.cpu.shares.value == 5
    assert [update.container_id for update in nri_runtime.updates] == ["c"]


def test_the_runtime_forgets_removed_containers_and_pods(nri_runtime: FakeRuntime) -> None:
    pod, container = make_pod(), make_container()
    nri_runtime.run_pod_sandbox(pod)
    nri_runtime.create_container(pod, container)
    nri_runtime.remove_container(pod, container)
    nri_runtime.remove_pod_sandbox(pod)
    assert (nri_runtime.pods, nri_runtime.containers) == ({}, {})


@pytest.mark.parametrize("text", ["", "no = 1\n"], ids=["a good policy", "a bad one"])
def test_the_temporary_policy_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with contextlib.suppress(ConfigError):
        runtime = FakeRuntime(policy=text)
        assert list(tmp_path.iterdir())
        runtime.close()
        runtime.close()
    assert list(tmp_path.iterdir()) == []


def test_a_policy_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("no = 1\n")
    with pytest.raises(ConfigError, match=r"policy\.toml:1: no: must be in a table"):
        FakeRuntime(policy_path=str(tmp_path / "policy.toml"))
    assert (tmp_path / "policy.toml").exists()


def test_an_unknown_event_is_an_attribute_error(nri_runtime: FakeRuntime) -> None:
    with pytest.raises(AttributeError, match="start_contaner"):
        nri_runtime.start_contaner  # noqa: B018


def test_every_event_can_be_sent() -> None:
    from nri.api.events import EVENTS

    begun: list[str] = []

    class Notes:
        def event_begins(self, event: str, serial: int, request: bytes) -> None:
            begun.append(event)

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    with FakeRuntime(reporters=[Notes()]) as runtime:
        for spec in EVENTS[:-1]:
            getattr(runtime, spec.method)()
        runtime.update_pod_sandbox(resources=m.LinuxResources())
    assert begun == [*(spec.rpc for spec in EVENTS[:-1]), "UpdatePodSandbox"]


def test_the_package_exports_exactly_its_public_names() -> None:
    assert [name for name in nri.testing.__all__ if not hasattr(nri.testing, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'FakeRuntme'"):
        nri.testing.FakeRuntme  # noqa: B018


@pytest.mark.parametrize(
    "use",
    [
        lambda runtime: runtime.create_container(),
        lambda runtime: runtime.update_container(),
        lambda runtime: runtime.stop_container(),
        lambda runtime: runtime.start_container(),
        lambda runtime: runtime.run_pod_sandbox(),
        lambda runtime: runtime.update_pod_sandbox(),
        lambda runtime: runtime.add(PodName()),
        lambda runtime: runtime.timeout(1),
        lambda runtime: runtime.restart(),
    ],
)
def test_a_closed_runtime_refuses_events(use: Callable[[FakeRuntime], object]) -> None:
    runtime = FakeRuntime(policy="")
    runtime.close()
    assert runtime.closed
    with pytest.raises(LocalProtocolError, match=r"closed.*create a new FakeRuntime"):
        use(runtime)
    runtime.close()


def test_a_refusal_carries_plugin_code_and_message(nri_runtime: FakeRuntime) -> None:
    class Refuses(nri.Plugin):
        name = "p"

        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            raise nri.Reject("no")

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            raise nri.RpcError(5, "no such zone")

    nri_runtime.add(Refuses())
    with pytest.raises(nri.PluginRejected) as refused:
        nri_runtime.create_container()
    error = refused.value
    assert (str(error), error.plugin, error.reason) == ("plugin 10-p refused: no", "10-p", "no")
    assert (error.code, error.message) == (7, "no")
    with pytest.raises(nri.PluginError) as failed:
        nri_runtime.start_container()
    assert (failed.value.code, failed.value.message) == (5, "no such zone")
    assert str(failed.value) == "plugin 10-p: NotFound: no such zone"


class Counts(nri.Plugin):
    """Nothing but background work."""

    def __init__(self) -> None:
        self.turns: list[str] = []
        self.fails = False

    @nri.every(3600)
    def count(self) -> None:
        self.turns.append(threading.current_thread().name)
        if self.fails:
            raise ValueError("cannot count")

    @nri.every(3600)
    async def count_too(self) -> None:
        self.turns.append("task")


def test_a_plugin_with_only_background_work_runs_in_real_time_and_by_hand(nri_runtime: FakeRuntime) -> None:
    plugin = Counts()
    nri_runtime.add(plugin)
    folder = threading.current_thread().name
    nri_runtime.tick()
    assert sorted(plugin.turns) == sorted(["nri-every-count", "task", folder, "task"]), (
        "one turn by itself, one by hand"
    )


def test_without_real_time_background_work_runs_only_by_hand() -> None:
    plugin = Counts()
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(plugin)
        assert plugin.turns == []
        assert runtime.tick() is runtime
        assert len(plugin.turns) == 2
        runtime.tick("10-counts")
        runtime.tick("20-other")
        assert len(plugin.turns) == 4
        runtime.disconnect().tick()
        assert len(plugin.turns) == 4, "a turn without a connection is left out"
        runtime.restart().tick()
        assert len(plugin.turns) == 6


def test_an_exception_of_background_work_reaches_the_test() -> None:
    plugin = Counts()
    plugin.fails = True
    with FakeRuntime(real_time=False) as runtime, pytest.raises(ValueError, match="cannot count"):
        runtime.add(plugin).tick()


def test_background_work_continues_after_a_restart_and_ends_with_the_runtime() -> None:
    class Often(nri.Plugin):
        turns = 0

        @nri.every(0.01)
        def count(self) -> None:
            self.turns += 1

    plugin = Often()
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.restart()
        before = plugin.turns
        wait_for(lambda: plugin.turns > before, "another turn after the restart")
    after = plugin.turns
    time.sleep(0.05)
    assert plugin.turns == after


def test_background_work_can_update_containers(nri_runtime: FakeRuntime) -> None:
    class Rebalance(nri.Plugin):
        mirror = True

        @nri.every(3600)
        def rebalance(self) -> None:
            self.runtime.update([nri.Update(c).set_cpu_shares(256) for c in self.state.containers.values()]).result()

    nri_runtime.add(Rebalance()).create_container(None, make_container(id="c"))
    nri_runtime.post_create_container()
    nri_runtime.tick()
    assert nri_runtime.updates == [nri.Update("c").set_cpu_shares(256)]
