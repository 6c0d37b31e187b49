"""The plugin of a policy: answers to events, state and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock as RealLock
from threading import current_thread
from types import SimpleNamespace
from typing import Any

import pytest

import nri
from nri.api import cpuset
from nri.api import messages as m
from nri.errors import ConfigError
from nri.placement import plugin as plugin_module
from nri.placement.answers import unpinned_resources
from nri.placement.checkpoint import Checkpoint
from nri.placement.containers import NoPlace
from nri.placement.plugin import PlacementPlugin
from nri.placement.state import PlacementState
from nri.plugins.balloons.plugin import BalloonsPlugin
from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.service.client import ask as ask_socket
from nri.stub.support.pending import Pending
from nri.testing import FakeRuntime, make_container
from tests.support.calls import calls
from tests.support.host_trees import write_files
from tests.support.placement import guest, write_machine
from tests.support.waiting import wait_for
from tests.unit.placement.placing import ask, config, cpus, create, pod, started, stop


@pytest.fixture
def runtime() -> Iterator[FakeRuntime]:
    with FakeRuntime(real_time=False) as fake_runtime:
        yield fake_runtime


def test_a_creation_pins_the_container_and_updates_shared_containers(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path)
    shared = runtime.create_container(pod("shared", "burstable"), ask("shared", 500, limit_m=600))
    assert (shared.adjust.cpuset_cpus, shared.adjust.cpuset_mems, shared.adjust.cpu_shares) == ("4-7", "1", 512)
    container_message = runtime.create_container(pod("own"), ask("own", 14000))
    assert container_message.adjust.cpuset_cpus == "1-6,8-15"
    (update,) = container_message.updates.values()
    assert (update.container_id, update.cpuset_cpus) == (shared.container.id, "7")
    back = runtime.stop_container(runtime.pods[container_message.container.pod_sandbox_id], container_message.container)
    assert [row.cpuset_cpus for row in back.updates.values()] == ["4-7"]


def test_a_container_removed_without_a_stop_returns_its_cpus(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path)
    runtime.create_container(pod("shared", "burstable"), ask("shared", 500, limit_m=600))
    own_pod, container_message = pod("own"), ask("own", 14000)
    runtime.create_container(own_pod, container_message)
    runtime.remove_container(own_pod, container_message)
    wait_for(lambda: [update.cpuset_cpus for update in runtime.updates] == ["4-7"])


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_an_update_without_values_keeps_the_requests_of_a_resize(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    plugin = started(runtime, tmp_path, kind(), **({"balloonTypes": [OWN]} if kind is BalloonsPlugin else {}))
    own_pod = pod("own")
    container = create(runtime, own_pod, ask("own", 2000)).container
    runtime.update_container(own_pod, runtime.containers[container.id], nri.Update(container).set_cpu_shares(3072))
    before = plugin.present.pins[container.id]
    runtime.update_container(own_pod, runtime.containers[container.id], nri.Update(container))
    placed = plugin.present.containers[container.id]
    assert (placed.requests.cpu_m, plugin.present.pins[container.id]) == (3000, before)


def test_a_container_that_fits_no_pool_is_refused_with_the_reason_of_each_pool(
    runtime: FakeRuntime, tmp_path: Path
) -> None:
    plugin = started(runtime, tmp_path)
    with pytest.raises(nri.PluginError, match=r"no place for default/huge/huge: .*root lacks 2000m CPU"):
        runtime.create_container(pod("huge"), ask("huge", 17000))
    assert plugin.present.containers == {}


def busy(*_: object) -> None:
    """What a runtime that takes no updates does."""
    raise nri.NriError("the runtime is busy")


def test_a_refused_resize_changes_no_container(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path)
    own_pod, container_message = pod("own"), ask("own", 2000)
    runtime.create_container(own_pod, container_message)
    grown = runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpu_shares(3072))
    assert grown.resources.cpu.cpus == "4-6"
    with pytest.raises(nri.PluginError, match="no place for default/own/own"):
        runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpu_shares(30720))
    second = runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpu_shares(3072))
    assert (second.resources.cpu.cpus, cpus(runtime)["own"]) == ("4-6", "4-6"), "it is not known yet that it has them"
    assert runtime.update_container(own_pod, make_container("unknown", own_pod)).resources.cpu.cpus == ""


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_a_resize_is_answered_only_with_changed_pins(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    started(runtime, tmp_path, kind(), **({"balloonTypes": [OWN]} if kind is BalloonsPlugin else {}))
    own_pod = pod("own")
    container_message = create(runtime, own_pod, ask("own", 2000)).container
    pins = m.LinuxCPU()
    pins.CopyFrom(container_message.linux.resources.cpu)

    def cpu_after(update: nri.Update) -> tuple[str, str, int]:
        cpu = runtime.update_container(own_pod, runtime.containers[container_message.id], update).resources.cpu
        return cpu.cpus, cpu.mems, cpu.shares.value

    before = len(runtime.updates)
    assert cpu_after(nri.Update(container_message).set_memory_limit(1 << 30)) == ("", "", 0), "it has them"
    runtime.tick()
    assert len(runtime.updates) == before, "all updates are already applied"
    assert cpu_after(nri.Update(container_message).set_cpuset_cpus("15")) == (pins.cpus, "", 0), (
        "the request has others"
    )
    assert cpu_after(nri.Update(container_message).set_cpuset_mems("0-1")) == ("", pins.mems, 0), (
        "the request has others"
    )
    runtime.containers[container_message.id].linux.resources.cpu.cpus = "15"
    assert cpu_after(nri.Update(container_message).set_memory_limit(1 << 30)) == (pins.cpus, "", 0), (
        "the runtime reports others"
    )


def test_a_resize_during_an_update_is_answered_with_all_pins(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN])
    own_pod = pod("own")
    container_message = create(runtime, own_pod, ask("own", 2000)).container
    monkeypatch.setattr(type(plugin.runtime), "update", busy)
    reconfigure(plugin, tmp_path, balloonTypes=[OWN | {"minCPUs": 4}])
    pins = plugin.present.pins[container_message.id].cpus
    message = runtime.containers[container_message.id]
    message.linux.resources.cpu.cpus = pins  # as it may be by chance, or has been once
    reply = runtime.update_container(own_pod, message, nri.Update(container_message).set_memory_limit(1 << 30))
    assert reply.resources.cpu.cpus == pins


def test_the_kubelets_pinning_is_overridden_with_a_warning(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(runtime, tmp_path)
    own_pod, container_message = pod("own"), ask("own", 2000)
    runtime.create_container(own_pod, container_message)
    reply = runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpuset_cpus("0-15"))
    assert reply.resources.cpu.cpus == "4-5"
    assert "set cpuManagerPolicy to none" in caplog.text


@pytest.mark.parametrize(
    ("values", "words"),
    [({"cpus": "0-15"}, "set cpuManagerPolicy to none"), ({"mems": "0"}, "set memoryManagerPolicy to None")],
)
def test_pinning_by_the_kubelet_is_logged_once(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, values: dict[str, str], words: str
) -> None:
    started(runtime, tmp_path)
    create(runtime, pod("left", **{"cpu.preserve": "true", "memory.preserve": "true"}), ask("left", 1000, **values))
    assert words not in caplog.text, "nothing is overruled"
    for name in ("one", "other"):
        create(runtime, pod(name), ask(name, 2000, **values))
    assert caplog.text.count(words) == 1


def test_a_pinning_kubelet_logs_a_warning_at_the_start(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_machine(tmp_path, guest())
    write_files(tmp_path, {"var/lib/kubelet/cpu_manager_state": '{"policyName": "static", "defaultCpuSet": "0-3"}'})
    started(runtime, tmp_path)
    assert "/var/lib/kubelet/cpu_manager_state: the kubelet's CPU manager is on, with the policy static" in caplog.text
    assert "set cpuManagerPolicy to none, remove /var/lib/kubelet/cpu_manager_state" in caplog.text


def test_invalid_annotations_are_logged_and_ignored(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(runtime, tmp_path)
    runtime.create_container(pod("own", prefer_shared_cpus="perhaps"), ask("own", 2000))
    assert "prefer-shared-cpus.resource-policy.nri.io: 'perhaps' must be true or false" in caplog.text


def test_a_running_container_with_an_invalid_annotation_stays_and_is_explained(
    runtime: FakeRuntime, tmp_path: Path
) -> None:
    plugin = started(runtime, tmp_path)
    create(runtime, pod("own"), ask("own", 2000))
    runtime.disconnect()
    for row in runtime.pods.values():
        row.annotations["cold-start.resource-policy.nri.io"] = "soon"
    later = started(runtime, tmp_path)
    assert later.present.pins == plugin.present.pins
    status, answer = ask_socket(str(tmp_path / "state" / f"{later.name}.sock"), "/explain?container=own", 5)
    assert status == 404
    assert "annotation cold-start.resource-policy.nri.io: expected a mapping of keys to values" in answer["error"]


def test_an_earlier_instance_without_a_stop_returns_its_cpus(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    own_pod = pod("own")
    first = runtime.create_container(own_pod, ask("own", 3000))
    second = runtime.create_container(own_pod, ask("own", 3000))
    assert second.adjust.cpuset_cpus == first.adjust.cpuset_cpus
    assert list(plugin.present.containers) == [second.container.id]


# -- what is kept ------------------------------------------------------------------------------------------------------


def fill(runtime: FakeRuntime) -> None:
    """Containers of each kind; one in between is gone."""
    container_message = ask("gone", 2000)
    create(runtime, pod("a"), ask("a", 2000))
    create(runtime, pod("gone"), container_message)
    create(runtime, pod("b"), ask("b", 3500))
    create(runtime, pod("c", prefer_shared_cpus="false"), ask("c", 1500))
    create(runtime, pod("d", "burstable"), ask("d", 700, limit_m=900))
    create(runtime, pod("e", "besteffort"), ask("e", 0))
    stop(runtime, container_message)


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_a_restarted_plugin_keeps_all_placements(tmp_path: Path, kind: type[TopologyAwarePlugin]) -> None:
    with FakeRuntime(real_time=False) as runtime:
        first = started(runtime, tmp_path, kind())
        fill(runtime)
        before, saved = cpus(runtime), first.present.saved()
        pods, containers = list(runtime.pods.values()), list(runtime.containers.values())
    with FakeRuntime(pods=pods, containers=reversed(containers), real_time=False) as runtime:
        second = started(runtime, tmp_path, kind())
        assert cpus(runtime) == before
        assert runtime.updates == []
        state = second.present.saved()
        assert (state.grants, state.containers) == (saved.grants, saved.containers)
        assert {str(balloon) for balloon in state.balloons} == {str(balloon) for balloon in saved.balloons}
        quiet = create(runtime, pod("quiet", "burstable", **LEFT_ALONE), ask("quiet", 100))
        assert quiet.updates == {}, "an unchanged container has no update"


def test_a_stop_without_other_changes_is_written_with_the_next_event(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    for name in ("one", "other"):
        create(runtime, pod(name), ask(name, 2000))
    (file,) = (tmp_path / "state").glob("*.json")
    before = file.stat()
    one, other = runtime.containers.values()
    stop(runtime, one)
    assert file.stat() == before
    third = create(runtime, pod("third"), ask("third", 1000))
    state, complaint = Checkpoint(str(file.parent), plugin.name).read()
    assert state is not None, complaint
    assert list(state.containers) == list(plugin.present.containers) == [other.id, third.container.id]


def test_a_reconnect_keeps_all_placements(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    fill(runtime)
    before, pins = cpus(runtime), dict(plugin.present.pins)
    runtime.restart()
    assert cpus(runtime) == before
    assert dict(plugin.present.pins) == pins
    assert runtime.updates == []


def test_containers_that_ended_during_a_disconnect_return_their_cpus(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    fill(runtime)
    for container in runtime.containers.values():
        if container.name in ("a", "b"):
            container.state = m.ContainerState.CONTAINER_STOPPED
    runtime.restart()
    assert sorted(container.name for container in plugin.present.containers.values()) == ["c", "d", "e"]
    assert plugin.present.pools.root.free_sharable.bit_count() == 14


def test_running_containers_are_placed_from_the_oldest(runtime: FakeRuntime, tmp_path: Path) -> None:
    pods = [pod(name) for name in "ab"]
    for place, row in enumerate(pods):
        runtime.pods[row.id] = row
        container_message = ask(
            row.name, 3000, pod=row, created_at=10 - place, state=m.ContainerState.CONTAINER_RUNNING
        )
        runtime.containers[container_message.id] = container_message
    started(runtime, tmp_path)
    assert cpus(runtime) == {"a": "8-10", "b": "4-6"}


def test_of_two_instances_of_a_container_the_newer_is_placed(runtime: FakeRuntime, tmp_path: Path) -> None:
    own_pod = pod("own")
    runtime.pods[own_pod.id] = own_pod
    for created in (1, 2):
        container_message = ask("own", 3000, pod=own_pod, id=f"c{created}", created_at=created)
        container_message.state = m.ContainerState.CONTAINER_RUNNING
        runtime.containers[container_message.id] = container_message
    plugin = started(runtime, tmp_path)
    assert list(plugin.present.containers) == ["c2"]


def test_a_running_container_that_no_longer_fits_is_shared_and_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_pod = pod("own")
    runtime.pods[own_pod.id] = own_pod
    container_message = ask("own", 20000, pod=own_pod, state=m.ContainerState.CONTAINER_RUNNING)
    runtime.containers[container_message.id] = container_message
    plugin = started(runtime, tmp_path)
    assert (
        "no place for default/own/own" in plugin.squeezed[container_message.id]
        or "lacks" in plugin.squeezed[container_message.id]
    )
    assert "it runs without exclusive CPUs" in caplog.text
    assert cpus(runtime)["own"]


def test_placements_beyond_the_time_of_synchronize_follow_later(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_pod = pod("own")
    runtime.pods[own_pod.id] = own_pod
    container_message = ask("own", 3000, pod=own_pod, state=m.ContainerState.CONTAINER_RUNNING)
    runtime.containers[container_message.id] = container_message
    started(runtime, tmp_path, no_time(TopologyAwarePlugin(), monkeypatch))
    assert cpus(runtime) == {"own": ""}
    runtime.tick()
    wait_for(lambda: cpus(runtime) == {"own": "4-6"})
    runtime.tick()


def test_a_decision_after_the_timeout_is_refused(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path)
    now = iter([0.0, 100.0, 200.0])
    monkeypatch.setattr("nri.placement.plugin.monotonic", lambda: next(now))
    with pytest.raises(nri.PluginError, match="the decision takes longer than"):
        runtime.create_container(pod("own"), ask("own", 3000))
    assert plugin.present.containers == {}


def test_a_state_that_cannot_be_written_is_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    started(runtime, tmp_path, stateDir=str(tmp_path / "file"))
    runtime.create_container(pod("own"), ask("own", 3000))
    assert "cannot save the state for a restart" in caplog.text


def test_a_state_that_cannot_be_read_is_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/topology-aware.json").write_text("{")
    started(runtime, tmp_path)
    assert "topology-aware.json" in caplog.text
    assert "all containers are placed again" in caplog.text


# -- configuration -----------------------------------------------------------------------------------------------------


def reconfigure(plugin: TopologyAwarePlugin, folder: Path, **options: object) -> None:
    """Give a plugin another configuration, as when its file has changed."""
    from nri.stub.session import settings

    settings.apply(plugin, config(folder, **options))
    plugin.configure()


def test_a_new_configuration_moves_as_few_containers_as_possible(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    runtime.create_container(pod("a"), ask("a", 2000))
    runtime.create_container(pod("b"), ask("b", 2000))
    assert cpus(runtime) == {"a": "4-5", "b": "8-9"}
    reconfigure(plugin, tmp_path, availableResources={"cpu": "exclude-cpuset:4-7"})
    wait_for(lambda: cpus(runtime) == {"a": "12-13", "b": "8-9"})


def test_a_configuration_without_a_pool_for_a_container_is_refused(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    runtime.create_container(pod("a"), ask("a", 6000))
    before = dict(plugin.present.pins)
    with pytest.raises(ConfigError, match=r"tion: no place for default/a/a: .*change the configuration"):
        reconfigure(plugin, tmp_path, availableResources={"cpu": "cpuset:0-3"})
    assert dict(plugin.present.pins) == before


OWN = {"name": "own", "matchExpressions": [{"key": "pod/name", "operator": "Matches", "values": ["own*"]}]}
PRESERVED = {"matchExpressions": [{"key": "pod/name", "operator": "Equals", "values": ["own"]}]}


@pytest.mark.parametrize("live", [True, False], ids=["while it runs", "before it starts again"])
@pytest.mark.parametrize(
    ("kind", "before", "after", "actual"),
    [
        (TopologyAwarePlugin, {}, {"pinCPU": False}, ("0-15", "1")),
        (TopologyAwarePlugin, {}, {"pinMemory": False}, ("4-5", "0-3")),
        (BalloonsPlugin, {"balloonTypes": [OWN]}, {"balloonTypes": [OWN], "pinCPU": False}, ("0-15", "0")),
        (BalloonsPlugin, {"balloonTypes": [OWN]}, {"balloonTypes": [OWN | {"pinMemory": False}]}, ("2-3", "0-3")),
        (BalloonsPlugin, {"balloonTypes": [OWN]}, {"preserve": PRESERVED}, ("0-15", "0-3")),
    ],
    ids=["CPUs", "memory", "CPUs of balloons", "memory of a type", "preserved"],
)
def test_a_container_that_is_no_longer_pinned_gets_all_cpus(
    runtime: FakeRuntime, tmp_path: Path, kind: Any, before: Any, after: Any, actual: tuple[str, str], live: bool
) -> None:
    plugin = started(runtime, tmp_path, kind(), **before)
    alone = pod("alone", **{"cpu.preserve": "true", "memory.preserve": "true"})
    create(runtime, alone, ask("alone", 1000, cpus="9", mems="2"))
    create(runtime, pod("own"), ask("own", 2000))

    def cpuset_of(name: str) -> tuple[str, str]:
        cpu = next(container.linux.resources.cpu for container in runtime.containers.values() if container.name == name)
        return cpu.cpus, cpu.mems

    if live:
        reconfigure(plugin, tmp_path, **after)
    else:
        runtime.disconnect()
        started(runtime, tmp_path, kind(), **after)
    wait_for(lambda: cpuset_of("own") == actual, lambda: str(cpuset_of("own")))
    took_all(runtime, tmp_path / "state" / f"{plugin.name}.json")
    for container in runtime.containers.values():  # from now on they are somebody else's business
        if container.name == "own" and actual[0] == "0-15":
            container.linux.resources.cpu.cpus = "3"
    runtime.disconnect()
    started(runtime, tmp_path, kind(), **after)
    assert cpuset_of("own") == ("3" if actual[0] == "0-15" else actual[0], actual[1])
    assert cpuset_of("alone") == ("9", "2")


def took_all(runtime: FakeRuntime, file: Path) -> None:
    """Wait until the plugin knows that every container has its pins."""

    def nothing_is_owed() -> bool:
        runtime.tick()
        state, _ = Checkpoint(str(file.parent), file.stem).read()
        return state is not None and all(state.free.values())

    wait_for(nothing_is_owed, "the runtime took all updates")


def shown(plugin: Any, tmp_path: Path) -> dict[str, Any]:
    """What `nri placement show` gets."""
    _, answer = ask_socket(str(tmp_path / "state" / f"{plugin.name}.sock"), "/show", 5)
    return answer


def places(answer: dict[str, Any]) -> dict[str, str]:
    return {container["container"]: container["place"] for container in answer["containers"]}


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_a_pod_of_a_removed_balloon_type_moves_to_another_type(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, restarts: bool
) -> None:
    types = [{"name": "fast"}, {"name": "all", "namespaces": ["*"]}]
    plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=types)
    system = pod("system", **{"balloon.balloons": "fast"})
    system.namespace = "kube-system"
    create(runtime, pod("own", **{"balloon.balloons": "fast"}), ask("own", 2000))
    create(runtime, system, ask("system", 1000))
    if restarts:
        runtime.disconnect()
        plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=types[1:])
    else:
        reconfigure(plugin, tmp_path, balloonTypes=types[1:])
    answer = shown(plugin, tmp_path)
    assert places(answer) == {"default/own/own": "default[0]", "kube-system/system/system": "reserved[0]"}
    text = "default/own/own: unknown type of balloons 'fast'; types are reserved, all, default; it is in default[0]"
    assert text in answer["configuration"]["unmet"]
    assert text in caplog.text
    wait_for(lambda: cpus(runtime)["own"] == answer["containers"][0]["cpus"], "the update")
    with pytest.raises(nri.PluginError, match="unknown type of balloons"):
        create(runtime, pod("new", **{"balloon.balloons": "fast"}), ask("new", 1000))
    reconfigure(plugin, tmp_path, balloonTypes=types)
    answer = shown(plugin, tmp_path)
    assert answer["configuration"]["unmet"] == []
    assert places(answer) == {"default/own/own": "fast[0]", "kube-system/system/system": "fast[0]"}


def test_a_pod_of_a_removed_type_does_not_prevent_the_configuration(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[{"name": "fast"}])
    create(runtime, pod("own", **{"balloon.balloons": "fast"}), ask("own", 4000))
    reconfigure(plugin, tmp_path, balloonTypes=[{"name": "default", "maxCPUs": 1, "maxBalloons": 1}])
    answer = shown(plugin, tmp_path)
    assert places(answer) == {"default/own/own": "default[0]"}
    assert answer["squeezed"][0].startswith("default/own/own: 4000m CPU requested from balloons default")
    assert "it runs without exclusive CPUs" in caplog.text


def test_a_removed_cpu_class_is_reported_and_does_not_prevent_the_configuration(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classes = [{"name": "low"}, {"name": "fast"}]
    plugin = started(runtime, tmp_path, cpuClasses=classes, sharedPoolCPUClass="low")
    create(runtime, pod("own", **{"cpu-class": "fast"}), ask("own", 2000))
    for reserved in ("cpuset:0", f"cpuset:{cpus(runtime)['own']}"):  # first it stays where it is, then it has to move
        options = {"cpuClasses": classes[:1], "sharedPoolCPUClass": "low", "reservedResources": {"cpu": reserved}}
        reconfigure(plugin, tmp_path, **options)
        (text,) = shown(plugin, tmp_path)["configuration"]["unmet"]
        assert "unknown CPU class 'fast'; write low" in text
        assert text in caplog.text


def test_an_event_logs_at_most_twenty_warnings_about_annotations(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(runtime, tmp_path)
    caplog.clear()
    words = ",".join(f"word{number}" for number in range(300))
    mistakes = {f"prefer-shared-cpu{number}": "x" for number in range(300)}
    create(runtime, pod("odd", topologyhints=words, **mistakes), ask("odd", 1000))
    assert len(caplog.records) == 20
    assert "there are more annotations like these" in caplog.text
    for number in range(3):
        create(runtime, pod(f"p{number}", topologyhints=words), ask(f"p{number}", 100))
    runtime.disconnect()
    (tmp_path / "state" / "topology-aware.json").unlink()
    caplog.clear()
    started(runtime, tmp_path)
    assert len([record for record in caplog.records if "annotation" in record.getMessage()]) == 20


def test_a_configuration_change_before_synchronize_keeps_all_placements(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path)
    fill(runtime)
    before = cpus(runtime)
    runtime.disconnect()
    dies_early = TopologyAwarePlugin()
    for options in ({}, {"preferSharedCPUs": True}):
        reconfigure(dies_early, tmp_path, **options)
    started(runtime, tmp_path)
    assert cpus(runtime) == before


def test_the_socket_follows_the_configuration(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    for name in ("other", "again"):
        reconfigure(plugin, tmp_path, stateDir=str(tmp_path / name))
        assert ask_socket(str(tmp_path / name / f"{plugin.name}.sock"), "/show", 5)[0] == 200
        assert [path.parent.name for path in tmp_path.glob("*/*.sock")] == [name]


def test_an_invalid_configuration_at_a_reconnect_keeps_the_last_valid_one(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = started(runtime, tmp_path)
    present = plugin.present
    plugin.closed()
    reconfigure(plugin, tmp_path, reservedResources={"cpu": "cpuset:77"})
    assert plugin.present is present
    assert "77 are not among the available CPUs (remove them); the configuration is unchanged" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"reservedResources": {"cpu": "cpuset:77"}},
            "the runtime's configuration: reservedResources.cpu: cpuset:77: 77 are not",
        ),
        ({"reservedResources": {}}, "reservedResources.cpu: missing"),
        ({"pinCPUs": True}, r'pinCPUs: unknown key \(did you mean "pinCPU"\?\)'),
        ({"unlimitedBurstable": "nume"}, r'unlimitedBurstable: expected one of .*did you mean "numa"'),
        ({"hostRoot": "/nowhere"}, "hostRoot: /nowhere has no CPUs"),
    ],
)
def test_an_invalid_configuration_prevents_the_start(
    runtime: FakeRuntime, tmp_path: Path, options: dict[str, object], words: str
) -> None:
    with pytest.raises(nri.NriError, match=words):
        started(runtime, tmp_path, **options)


def test_a_custom_resource_is_accepted_as_configuration(runtime: FakeRuntime, tmp_path: Path) -> None:
    spec = json.loads(config(tmp_path))
    resource = {"apiVersion": "config.nri/v1alpha1", "kind": "TopologyAwarePolicy", "metadata": {"name": "default"}}
    plugin = TopologyAwarePlugin()
    runtime.add(plugin, idx="90", config=json.dumps(resource | {"spec": spec}))
    assert plugin.config.reservedResources.cpu == "cpuset:0"
    with pytest.raises(nri.NriError, match='kind: expected TopologyAwarePolicy, not "BalloonsPolicy"'):
        runtime.add(TopologyAwarePlugin(), idx="91", config=json.dumps(resource | {"kind": "BalloonsPolicy"}))


def test_a_container_is_placed_near_its_device(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    with pytest.raises(ConfigError, match=r"hostRoot: cannot change from /.* to /nowhere .*\(restart the plugin\)"):
        reconfigure(plugin, tmp_path, hostRoot="/nowhere")  # is refused, and so it is not there that it looks
    gpu = "sys/devices/pci0000:00/0000:00:01.0"
    write_files(tmp_path, {f"{gpu}/local_cpulist": "12-15", f"{gpu}/numa_node": "3", "sys/dev/char/": ""})
    (tmp_path / "sys/dev/char/195:0").symlink_to(f"../../../{gpu}")
    one = ask("one", 1000)
    one.linux.devices.append(m.LinuxDevice(path="/dev/gpu", type="c", major=195))
    one.linux.resources.devices.append(m.LinuxDeviceCgroup(allow=True, access="rwm"))
    adjustment = create(runtime, pod("one"), one).adjust
    assert (adjustment.cpuset_cpus, adjustment.cpuset_mems) == ("12", "3")
    other = create(runtime, pod("other", topologyhints="false"), ask("other", 1000)).adjust
    assert other.cpuset_mems != "3"


def test_a_scheduling_class_is_set_when_a_container_is_created(runtime: FakeRuntime, tmp_path: Path) -> None:
    classes = [{"name": "calm", "policy": "batch", "nice": 10, "ioClass": "idle"}]
    started(runtime, tmp_path, schedulingClasses=classes, podQoSSchedulingClasses={"BestEffort": "calm"})
    adjustment = create(runtime, pod("idle", "besteffort"), ask("idle", 0)).adjust.message.linux
    assert (adjustment.scheduler.policy, adjustment.scheduler.nice) == (m.LinuxSchedulerPolicy.SCHED_BATCH, 10)
    assert getattr(adjustment.io_priority, "class") == m.IOPrioClass.IOPRIO_CLASS_IDLE
    assert not create(runtime, pod("own"), ask("own", 1000)).adjust.message.linux.HasField("scheduler")


def test_keys_without_effect_are_logged(runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    started(runtime, tmp_path, log={"debug": ["*"]}, instrumentation={"reportPeriod": "60s"})
    assert "log: it has no effect: the log is set by --log-level" in caplog.text
    assert "instrumentation: it has no effect" in caplog.text


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TopologyAwarePlugin, {"control": {"rdt": {"enable": True}}}),
        (BalloonsPlugin, {"control": {"blockio": {"enable": True}}, "log": {"debug": ["policy"]}}),
    ],
)
def test_every_unused_key_is_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Any, values: dict[str, Any]
) -> None:
    started(runtime, tmp_path, kind(), **values)
    assert caplog.text.count(": it has no effect: ") == len(values)
    assert all(f"the runtime's configuration: {key}" in caplog.text for key in values)


def test_an_unsupported_key_of_a_class_is_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = {"podResourceAPI": True, "nodeResourceTopology": False, "other": {}, "configFile": "x"}
    started(
        runtime, tmp_path, cpuClasses=[{"name": "low", "pctPriority": "low"}], sharedPoolCPUClass="low", agent=agent
    )
    assert "agent.podResourceAPI: it has no effect: the kubelet's pod resources API is not used" in caplog.text
    assert "agent.configFile: it has no effect: there is no agent" in caplog.text
    assert "nodeResourceTopology" not in caplog.text and "agent.other" not in caplog.text
    assert "cpuClasses[0].pctPriority: it has no effect: Intel Speed Select is not supported" in caplog.text


def test_unused_annotations_are_logged_with_the_container(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(runtime, tmp_path)
    runtime.create_container(
        pod("own", rdtclass="gold", toptierlimit="1G", pick_resources_by_hints="true"), ask("own", 1)
    )
    for key in ("rdtclass", "toptierlimit", "pick-resources-by-hints"):
        assert f"default/own/own: annotation {key}.resource-policy.nri.io has no effect: " in caplog.text
    assert "annotation blockioclass" not in caplog.text


def test_a_changed_machine_is_read_again(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path)
    runtime.create_container(pod("a"), ask("a", 2000))
    topology = guest()
    remainder = {number: cpu for number, cpu in topology.cpus.items() if number not in (4, 5)}
    write_machine(tmp_path, replace(topology, cpus=remainder, offline=frozenset({4, 5})))
    plugin.configure()
    wait_for(lambda: cpus(runtime) == {"a": "6-7"} or cpus(runtime)["a"] != "4-5")


def test_a_plugin_class_without_a_policy_is_an_error() -> None:
    class Nameless(PlacementPlugin):
        name = "nameless"

    with pytest.raises(TypeError, match="policy_type"):
        Nameless()  # type: ignore[abstract]


def test_metrics_are_available_after_the_start(runtime: FakeRuntime, tmp_path: Path) -> None:
    assert TopologyAwarePlugin().measurements() == ""
    plugin = started(runtime, tmp_path)
    assert 'nri_policy_topologyaware_zone_container_count{zone="root"} 0' in plugin.measurements()
    create(runtime, pod("own"), ask("own", 2000))
    text = plugin.measurements()
    assert 'nri_policy_cpu_allocation_milli_cores{cpu_id="4"} 1000\n' in text
    assert 'nri_policy_cpu_container_count{cpu_id="6"} 0\n' in text
    assert 'nri_policy_mem_node_capacity_bytes{node_id="1",node_type="DRAM"} 2147483648\n' in text
    assert 'nri_policy_mem_node_container_count{node_id="1"} 1\n' in text
    assert 'nri_policy_mem_node_usage_bytes{node_id="1"} 0\n' in text


LEFT_ALONE = {"cpu.preserve": "true", "memory.preserve": "true"}


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_preserved_containers_stay_preserved_after_a_reconnect(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    plugin = started(runtime, tmp_path, kind())
    create(runtime, pod("alone", **LEFT_ALONE), ask("alone", 1000, cpus="9", mems="2"))
    runtime.disconnect()
    runtime.add(plugin, idx="90", config=config(tmp_path))
    assert cpus(runtime)["alone"] == "9"


def test_an_older_state_file_frees_no_preserved_container(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path, BalloonsPlugin())
    create(runtime, pod("alone", **LEFT_ALONE), ask("alone", 1000, cpus="9", mems="2"))
    runtime.disconnect()
    file = tmp_path / "state" / "balloons.json"
    tree = [json.loads(line) for line in file.read_text().splitlines()]
    for line in tree:
        line.pop("free", None)
    file.write_text("".join(json.dumps(line) + "\n" for line in tree))
    started(runtime, tmp_path, BalloonsPlugin())
    assert cpus(runtime) == {"alone": "9"}


def test_an_unpinned_container_is_freed_after_a_disconnect(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN])
    create(runtime, pod("own"), ask("own", 2000))
    runtime.disconnect()
    reconfigure(plugin, tmp_path, balloonTypes=[OWN], preserve=PRESERVED)
    started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN], preserve=PRESERVED)
    assert cpus(runtime) == {"own": "0-15"}


def no_time(plugin: PlacementPlugin, monkeypatch: pytest.MonkeyPatch) -> PlacementPlugin:
    """A plugin that has no time for any container when it is synchronized."""

    def over(what: str) -> Any:
        def in_time() -> None:
            if what == "all containers":
                raise NoPlace(what, "time")

        return in_time

    monkeypatch.setattr(plugin, "timer", over)
    return plugin


def test_an_unpinned_container_is_freed_after_synchronize(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN])
    create(runtime, pod("own"), ask("own", 2000))
    runtime.disconnect()
    started(runtime, tmp_path, no_time(BalloonsPlugin(), monkeypatch), balloonTypes=[OWN], preserve=PRESERVED)
    runtime.tick()
    wait_for(lambda: cpus(runtime) == {"own": "0-15"}, lambda: f"it is freed: {cpus(runtime)}")


def test_an_unpinned_container_is_freed_after_refused_updates(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN])
    create(runtime, pod("own"), ask("own", 2000))
    with monkeypatch.context() as context:
        context.setattr(type(plugin.runtime), "update", busy)
        reconfigure(plugin, tmp_path, balloonTypes=[OWN], preserve=PRESERVED)
    create(runtime, pod("other"), ask("other", 100))  # the state is written once more
    runtime.disconnect()
    started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN], preserve=PRESERVED)
    assert cpus(runtime)["own"] == "0-15"


@pytest.mark.parametrize("kind", [BalloonsPlugin, TopologyAwarePlugin])
def test_the_cost_of_an_update_does_not_depend_on_the_number_of_containers(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    plugin = started(runtime, tmp_path, kind())
    counts = []
    for number in range(61):
        of, one = (
            pod(f"p{number}", "burstable", **{"memory.preserve": str(number % 2 > 0).lower()}),
            ask(f"c{number}", 10),
        )
        runtime.create_container(of, one)
        if number % 10 == 0:
            more = ask("more", 20).linux.resources
            counts.append(calls(partial(plugin.update_container, of, one, more)))
        state, complaint = Checkpoint(str(tmp_path / "state"), plugin.name).read()
        assert state == replace(plugin.present.saved(), free=unpinned_resources(plugin.present)), complaint
    assert counts[-1] <= counts[1] + 5, counts


def test_an_empty_policy_is_kept_for_running_containers(tmp_path: Path) -> None:
    states: list[PlacementState | None] = []

    class Noted(BalloonsPlugin):
        name = "balloons"

        def make(self, machine: Any, options: Any, state: PlacementState | None, containers: Any) -> Any:
            states.append(state)
            return super().make(machine, options, state, containers)

    with FakeRuntime(real_time=False) as runtime:
        of, one = pod("one"), ask("one", 1000)
        runtime.run_pod_sandbox(of)
        runtime.create_container(of, one)
        runtime.containers[one.id].state = m.ContainerState.CONTAINER_RUNNING
        plugin = started(runtime, tmp_path, Noted())
        assert plugin.present.pins[one.id].cpus
        assert states == [None]


def test_an_unpinned_container_is_freed_after_a_crash_before_the_answer(runtime: FakeRuntime, tmp_path: Path) -> None:
    started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN])
    container_message = create(runtime, pod("own"), ask("own", 2000)).container
    for _ in range(2):
        runtime.disconnect()
        started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=[OWN], preserve=PRESERVED)
        assert cpus(runtime) == {"own": "0-15"}
        runtime.containers[container_message.id].linux.resources.cpu.cpus = "2-3"  # as if it had not come to that
    took_all(runtime, tmp_path / "state" / "balloons.json")
    assert cpus(runtime) == {"own": "0-15"}


@pytest.mark.parametrize("error", [False, True], ids=["fails", "is refused"])
@pytest.mark.parametrize(
    ("after", "actual"),
    [({"pinCPU": False}, "0-15"), ({"availableResources": {"cpu": "exclude-cpuset:4-7"}}, "8-9")],
    ids=["freed", "moved"],
)
def test_a_failed_update_is_retried_and_logged_once(
    runtime: FakeRuntime,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    after: Any,
    actual: str,
    error: bool,
) -> None:
    plugin = started(runtime, tmp_path)
    container_message = create(runtime, pod("own"), ask("own", 2000)).container
    with monkeypatch.context() as context:
        if error:
            context.setattr(runtime, "refuse_updates", None)  # TypeError in the runtime
        else:
            runtime.refuse_updates.add(container_message.id)
        reconfigure(plugin, tmp_path, **after)

        def is_reported() -> bool:
            runtime.tick()
            return "the runtime has not applied all updates of containers" in caplog.text

        wait_for(is_reported, "the report of the failed update")
        create(runtime, pod("other"), ask("other", 1000))  # another update may be taken meanwhile
        assert cpus(runtime)["own"] == "4-5"
    runtime.refuse_updates.clear()
    took_all(runtime, tmp_path / "state" / "topology-aware.json")

    def is_moved() -> bool:
        runtime.tick()
        return cpus(runtime)["own"] == actual

    wait_for(is_moved, lambda: str(cpus(runtime)))
    assert caplog.text.count("has not applied all updates") == 1


def test_a_failed_update_of_a_stopped_container_is_not_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path)
    container_message = create(runtime, pod("own"), ask("own", 2000)).container
    late, requests = Pending(False), list[str]()

    def noted(_: object, updates: list[nri.Update]) -> Pending:
        requests.extend(update.container_id for update in updates)
        return late

    monkeypatch.setattr(type(plugin.runtime), "update", noted)
    reconfigure(plugin, tmp_path, pinCPU=False)
    stop(runtime, container_message)
    late.finish([nri.Update(container_message.id)])
    create(runtime, pod("other"), ask("other", 1000))
    reconfigure(plugin, tmp_path, pinCPU=True)
    plugin.retry_updates()
    assert container_message.id in requests and "has not applied" not in caplog.text


def test_updates_that_always_fail_are_retried_with_backoff(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path)
    container_message = create(runtime, pod("own"), ask("own", 2000)).container
    turns, passed, refuses = list[int](), [0], True

    def refused(_: object, updates: list[nri.Update]) -> Pending:
        turns.append(passed[0])
        answer = Pending(False)
        answer.finish([nri.Update(container_message.id)] if refuses else [])
        return answer

    monkeypatch.setattr(type(plugin.runtime), "update", refused)

    def pass_turns(number: int) -> None:
        for _ in range(number):
            passed[0] += 1
            plugin.retry_updates()

    reconfigure(plugin, tmp_path, pinCPU=False)
    pass_turns(320)
    assert turns == [0, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320]
    assert caplog.text.count("has not applied all updates of containers; retrying: 1 update failed") == 1
    refuses = False
    pass_turns(180)
    assert turns[11:] == [384]


def test_the_total_of_failed_updates_is_logged(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path)
    container_message = create(runtime, pod("own"), ask("own", 2000)).container
    answers = [[], [nri.Update(container_message.id)]]

    def answered(_: object, updates: list[nri.Update]) -> Pending:
        answer = Pending(False)
        answer.finish(answers.pop(0))
        return answer

    monkeypatch.setattr(type(plugin.runtime), "update", answered)
    reconfigure(plugin, tmp_path, pinCPU=False)
    reconfigure(plugin, tmp_path, pinCPU=True)
    assert not answers, "it was asked twice"
    plugin.retry_updates()
    assert "retrying: 1 update failed" in caplog.text


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_changes_of_a_resize_are_requested_again(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    options = {"balloonTypes": [{"name": "all", "namespaces": ["*"]}]} if kind is BalloonsPlugin else {}
    started(runtime, tmp_path, kind(), **options)
    shared = create(runtime, pod("shared", "burstable"), ask("shared", 500, limit_m=600)).container
    own_pod, container_message = pod("own"), ask("own", 14000)
    create(runtime, own_pod, container_message)
    before = len(runtime.updates)
    reply = runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpu_shares(13312))
    pins = {container_message.id: reply.resources.cpu.cpus} | {
        name: update.cpuset_cpus for name, update in reply.updates.items()
    }
    assert shared.id in pins, "it changes, too"

    def is_done() -> bool:
        runtime.tick()
        return {update.container_id: update.cpuset_cpus for update in runtime.updates[before:]} == pins

    wait_for(is_done, lambda: f"{runtime.updates[before:]} are not {pins}")
    runtime.update_container(own_pod, container_message, nri.Update(container_message).set_cpu_shares(13312))
    for _ in range(3):
        runtime.tick()
    assert len(runtime.updates) == before + len(pins), "nothing has changed"


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
@pytest.mark.parametrize("restored", [False, True], ids=["at once", "after a restart"])
def test_a_container_without_cpus_at_start_gets_them_when_cpus_are_free(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin], restored: bool
) -> None:
    containers_by_name = {}
    for created, name in enumerate(("first", "second"), 1):
        own_pod = pod(f"own-{name}")
        runtime.pods[own_pod.id] = own_pod
        containers_by_name[name] = ask(
            name, 10000, pod=own_pod, created_at=created, state=m.ContainerState.CONTAINER_RUNNING
        )
        runtime.containers[containers_by_name[name].id] = containers_by_name[name]
    own_type = OWN | {"minCPUs": 10, "maxCPUs": 10}
    options = {"balloonTypes": [own_type]} if kind is BalloonsPlugin else {}
    plugin = started(runtime, tmp_path, kind(), **options)
    second = containers_by_name["second"]
    assert list(plugin.squeezed) == [second.id]
    if restored:
        before = cpus(runtime)
        runtime.disconnect()
        plugin = started(runtime, tmp_path, kind(), **options)
        assert (cpus(runtime), list(plugin.squeezed)) == (before, [second.id])
    runtime.tick()
    update = runtime.update_container(
        runtime.pods[second.pod_sandbox_id], second, nri.Update(second).set_memory_limit(1 << 30)
    )
    assert update.resources.memory.limit.value == 1 << 30
    runtime.tick()
    assert list(plugin.squeezed) == [second.id]
    _, shown = ask_socket(str(tmp_path / "state" / f"{plugin.name}.sock"), "/show", 5)
    assert [row.partition(": ")[0] for row in shown["squeezed"]] == ["default/own-second/second"]
    stop(runtime, containers_by_name["first"])

    def has_room() -> bool:
        runtime.tick()
        return len(cpuset.parse(cpus(runtime)["second"])) == 10

    wait_for(has_room, lambda: str(cpus(runtime)))
    assert plugin.squeezed == {}


def test_the_request_of_a_waiting_container_survives_a_crash(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(runtime, tmp_path)
    create(runtime, pod("own", prefer_shared_cpus="false"), ask("own", 1500))
    less = {"availableResources": {"cpu": "exclude-cpuset:4-7"}}  # so that it cannot stay
    runtime.disconnect()
    started(runtime, tmp_path, no_time(TopologyAwarePlugin(), monkeypatch), **less)
    assert cpus(runtime) == {"own": "4-7"}
    runtime.disconnect()
    plugin = started(runtime, tmp_path, **less)
    (placed,) = plugin.present.containers.values()
    assert (cpus(runtime), placed.requests.cpu_m) == ({"own": "8-11"}, 1500)


def test_a_waiting_container_follows_resizes_and_later_instances(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "other"):
        its_pod = pod(name)
        runtime.pods[its_pod.id] = its_pod
        container_message = ask(name, 1000, pod=its_pod, state=m.ContainerState.CONTAINER_RUNNING)
        runtime.containers[container_message.id] = container_message
    first, other = runtime.containers.values()
    plugin = started(runtime, tmp_path, no_time(TopologyAwarePlugin(), monkeypatch))
    runtime.update_container(runtime.pods[first.pod_sandbox_id], first, nri.Update(first).set_cpu_shares(3072))
    state, complaint = Checkpoint(str(tmp_path / "state"), plugin.name).read()
    assert state is not None and state.containers[first.id].cpu_m == 3000, complaint
    later = create(runtime, runtime.pods[other.pod_sandbox_id], ask("other", 2000)).container
    runtime.tick()
    wait_for(lambda: first.id in plugin.present.containers)
    assert {name: container.requests.cpu_m for name, container in plugin.present.containers.items()} == {
        first.id: 3000,
        later.id: 2000,
    }


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_a_container_that_was_never_created_returns_its_cpus_with_its_pod(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    class Refuses(nri.Plugin):
        name = "refuses"

        def create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
            if container.name in ("one", "two"):
                raise nri.Reject("not here")

    plugin = started(runtime, tmp_path, kind())
    runtime.add(Refuses(), idx="95")
    shared = create(runtime, pod("shared", "burstable"), ask("shared", 500, limit_m=600)).container
    never = pod("never")
    for name in ("one", "two"):
        with pytest.raises(nri.PluginError, match="not here"):
            runtime.create_container(never, ask(name, 6000))
    assert len(plugin.present.containers) == 3
    runtime.stop_pod_sandbox(never)
    wait_for(lambda: list(plugin.present.containers) == [shared.id])
    wait_for(lambda: cpus(runtime) == {"shared": plugin.present.pins[shared.id].cpus})
    assert {update.container_id for update in runtime.updates} <= set(runtime.containers)


def test_no_decision_happens_between_a_removal_and_its_update(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, this_thread = list[str](), current_thread()

    class Lock:
        def __init__(self) -> None:
            self._lock = RealLock()

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()
            if current_thread() is this_thread:
                turns.append("another's turn")

    def noted(_: object, updates: list[nri.Update]) -> Pending:
        turns.extend(update.container_id for update in updates)
        return Pending(False)

    with monkeypatch.context() as context:
        context.setattr(plugin_module, "threading", SimpleNamespace(Lock=Lock))
        plugin = started(runtime, tmp_path)
    shared = create(runtime, pod("shared", "burstable"), ask("shared", 500, limit_m=600)).container
    container_message = create(runtime, pod("own"), ask("own", 14000)).container
    monkeypatch.setattr(type(plugin.runtime), "update", noted)
    turns.clear()
    plugin.remove_container(runtime.pods[container_message.pod_sandbox_id], container_message)
    assert turns[:2] == [shared.id, "another's turn"]


@pytest.mark.parametrize("kind", [BalloonsPlugin, TopologyAwarePlugin])
def test_requests_of_waiting_containers_are_saved_at_each_update(
    runtime: FakeRuntime, tmp_path: Path, kind: type[PlacementPlugin]
) -> None:
    of, one = pod("one", "burstable"), ask("one", 20_000)
    runtime.run_pod_sandbox(of)
    runtime.create_container(of, one)
    runtime.containers[one.id].state = m.ContainerState.CONTAINER_RUNNING
    plugin = started(runtime, tmp_path, kind())
    for cpu_m in (21_000, 22_000):
        plugin.update_container(of, one, ask("more", cpu_m).linux.resources)
        state, complaint = Checkpoint(str(tmp_path / "state"), plugin.name).read()
        assert state is not None, complaint
        assert (state.containers[one.id].cpu_m, state.containers[one.id].squeezed) == (cpu_m, True)


def test_a_balloon_fits_a_container_that_was_resized_while_preserved(runtime: FakeRuntime, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path, BalloonsPlugin())
    of, one = pod("own"), ask("own", 1000)
    create(runtime, of, one)
    reconfigure(plugin, tmp_path, preserve=PRESERVED)
    runtime.update_container(of, one, nri.Update(one).set_cpu_shares(5120))
    reconfigure(plugin, tmp_path)
    assert plugin.present.containers[one.id].requests.cpu_m == 5000
    assert len(cpuset.parse(plugin.present.pins[one.id].cpus or "")) == 5
