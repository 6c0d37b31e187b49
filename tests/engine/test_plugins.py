"""Plugins on a real engine: what they want of other containers, how they come and go, in which order they are asked.

iSulad's four test points (surrounding-systems.md C.6), and the traps of F.5 that concern an engine.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.engine.state import ContainerState
from nri.errors import ConflictError, NriError
from tests.engine.node import POLITE, Node, Recorder, die, killed_while, unsolicited
from tests.support.plugin_program import PluginProgram


def shares(node: Node, container: str) -> str:
    return node.cgroup(container, "cpu", "cpu.shares")


def spec_of(node: Node, container: str) -> dict[str, Any]:
    return dict(json.loads((node.config.state / "bundles" / container / "config.json").read_text()))


# --- what plugins want of other containers ---


def test_an_update_of_another_container_in_an_answer_is_done_and_comes_back_to_no_plugin(node: Node) -> None:
    plugin: Recorder = node.plugin()
    other: Recorder = node.plugin(index="20", name="other")
    pod = node.pod()
    first = node.run(pod, "first")
    plugin.on["create"] = lambda *_: (None, [nri.Update(first).set_cpu_shares(300)])
    node.create(pod, "second")
    assert shares(node, first) == "300"
    assert node.engine.inventory.container(first).record.resources["cpu_shares"] == "300"
    assert spec_of(node, first)["linux"]["resources"]["cpu"]["shares"] == 300
    assert not {"update", "post_update"} & {*plugin.of("first"), *other.of("first")}
    plugin.on["stop"] = lambda *_: [nri.Update(first).set_cpu_shares(400)]
    node.engine.container_removal.remove(node.run(pod, "third"))
    assert shares(node, first) == "400"


def test_an_update_of_another_container_is_not_done_if_the_creation_fails(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    first = node.run(pod, "first", linux=pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(cpu_shares=500)))
    plugin.on["create"] = lambda *_: (None, [nri.Update(first).set_cpu_shares(300)])
    node.create(pod, "second", ("/nonesuch",))  # the OCI runtime refuses it, so its start will fail
    assert shares(node, first) == "500"
    assert node.engine.inventory.container(first).record.resources["cpu_shares"] == "500"


def test_a_plugin_updates_containers_by_itself(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id, over = node.run(pod, "one"), node.run(pod, "over", ("true",))
    node.wait_exited(over)
    failed = plugin.runtime.update(nri.Update(container_id).set_cpu_shares(256).set_memory_limit(80 << 20)).result(10)
    assert failed == []
    assert (shares(node, container_id), node.cgroup(container_id, "memory", "memory.limit_in_bytes")) == (
        "256",
        str(80 << 20),
    )
    assert node.engine.inventory.container(container_id).record.resources["memory_limit_in_bytes"] == str(80 << 20)
    for missing_id in (over, "nonesuch"):
        failed = plugin.runtime.update(nri.Update(missing_id).set_cpu_shares(256)).result(10)
        assert [row.container_id for row in failed] == [missing_id]
    assert "update" not in plugin.of("one")
    node.restart()  # what was updated is what is known
    recorder: Recorder = node.plugin()
    shown: list[Any] = []
    recorder.on["stop"] = lambda _, container: shown.append(container.linux.resources.cpu.shares.value)
    node.engine.container_removal.stop(container_id)
    assert shown == [256]


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_a_plugin_lowers_and_raises_a_limit_of_memory_with_that_of_swap(node: Node, handler: str) -> None:
    plugin: Recorder = node.plugin()
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20)
    container_id = node.run(node.pod(handler=handler), linux=pb.LinuxContainerConfig(resources=resources))
    for size in (48 << 20, 128 << 20):
        assert plugin.runtime.update(nri.Update(container_id).set_memory_limit(size)).result(10) == []
        assert node.cgroup(container_id, "memory", "memory.limit_in_bytes") == str(size)
        assert node.cgroup(container_id, "memory", "memory.memsw.limit_in_bytes") == str(size)


def test_what_cannot_be_done_is_said_by_field_and_the_rest_is_done(node: Node) -> None:
    node.plugin()
    container_id = node.run(node.pod())
    update = m.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.shares.value = 600
    update.linux.resources.rdt_class.value = "gold"
    update.linux.resources.memory.swappiness.value = 5
    (result,) = node.engine.nri.update(unsolicited(update))
    rows = {row.field: row.outcome for row in result.fields}
    assert rows == {"cpu.shares": "applied", "memory.swappiness": "unsupported", "rdt_class": "unsupported"}
    assert shares(node, container_id) == "600" and result.failed


def test_what_a_plugin_answers_to_synchronize_is_done(node: Node) -> None:
    container_id = node.run(node.pod())
    plugin = Recorder()
    plugin.on["synchronize"] = lambda _, containers: [nri.Update(one.id).set_cpu_shares(333) for one in containers]
    node.plugin(plugin)
    assert plugin.synchronized == [(["pod"], ["c"])]
    node.wait_for(lambda: shares(node, container_id) == "333", "the update")


def test_a_plugin_changes_the_request_of_an_update(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id, other = node.run(pod), node.run(pod, "other")
    plugin.on["update"] = lambda _, container: [
        nri.Update(container.id).set_cpu_shares(700), nri.Update(other).set_cpu_shares(800)
    ]  # fmt: skip
    requested = pb.LinuxContainerResources(cpu_shares=100, memory_limit_in_bytes=96 << 20)
    node.engine.resource_updates.update_container(container_id, requested)
    assert (shares(node, container_id), shares(node, other)) == ("700", "800")
    assert node.cgroup(container_id, "memory", "memory.limit_in_bytes") == str(96 << 20)
    assert plugin.of("c")[-2:] == ["update", "post_update"] and "update" not in plugin.of("other")


def test_an_update_of_the_container_that_is_being_made_fails_it_by_name(node: Node) -> None:
    plugin: Recorder = node.plugin()
    plugin.on["create"] = lambda _, container: (None, [nri.Update(container.id).set_cpu_shares(700)])
    with pytest.raises(NriError, match="10-recorder"):
        node.create(node.pod())
    assert node.engine.inventory.containers() == []


def test_a_plugin_is_told_that_another_one_refused_what_it_had_granted(node: Node) -> None:
    node.config = replace(node.config, nri=replace(node.config.nri, tell_refused=True))
    plugin: Recorder = node.plugin()
    refusing: Recorder = node.plugin(index="20", name="refusing")
    pod = node.pod()
    container_id = node.run(pod)
    before = shares(node, container_id)
    plugin.on["update"] = lambda *_: [nri.Update(container_id).set_cpu_shares(300)]
    plugin.on["create"] = lambda *_: (None, [nri.Update(container_id).set_cpu_shares(300)])
    refusing.on["create"] = refusing.on["update"] = refuse
    with pytest.raises(NriError, match="20-refusing"):
        node.create(pod, "second")
    with pytest.raises(NriError, match="20-refusing"):
        node.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=100))
    assert plugin.of("second") == ["create", "stop", "remove"]
    assert plugin.of("c")[-2:] == ["update", "post_update"]
    assert shares(node, container_id) == before


def refuse(*_: object) -> None:
    raise ValueError("not today")


def test_a_plugin_evicts_a_container_by_itself(node: Node) -> None:
    plugin: Recorder = node.plugin()
    container_id = node.run(node.pod(), command=POLITE)
    node.wait_for(lambda: "ready" in (node.folder / "logs/pod/c.log").read_text(), "the first word")
    plugin.runtime.evict(container_id, "too loud").result(10)
    node.wait_exited(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.state, record.exit_code) == (ContainerState.EXITED, 3)
    assert "too loud" in record.message
    assert plugin.of("c") == ["create", "post_create", "start", "post_start", "stop"]


def test_updates_by_plugins_and_requests_for_the_same_containers_do_not_lock_each_other(
    node: Node,
) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    one, two = node.run(pod, "one"), node.run(pod, "two")
    plugin.on["update"] = lambda _, container: [
        nri.Update({one: two, two: one}[container.id]).set_cpu_shares(500)
    ]  # fmt: skip
    errors: list[BaseException] = []

    def change(container: str) -> None:
        try:
            for number in range(5):
                linux_container_resources = pb.LinuxContainerResources(memory_limit_in_bytes=(64 + number) << 20)
                node.engine.resource_updates.update_container(container, linux_container_resources)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=change, args=(listener_,)) for listener_ in (one, two)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        plugin.runtime.update(nri.Update(one).set_cpu_quota(50000), nri.Update(two).set_cpu_quota(50000)).result(20)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and errors == []
    assert [shares(node, one), shares(node, two)] == ["500", "500"]


# --- what several plugins make of one container ---


def test_a_conflict_names_both_plugins_and_the_field_even_if_it_is_an_annotation(node: Node) -> None:
    for index in ("10", "20"):
        plugin: Recorder = node.plugin(index=index, name=f"p{index}")
        plugin.on["create"] = lambda *_, index=index: nri.Adjustment().add_annotation("mine", index)
    with pytest.raises(ConflictError, match=r"20-p20.* and .*10-p10.* Annotations mine"):
        node.create(node.pod())


def test_all_that_one_plugin_wants_is_done(node: Node) -> None:
    plugin: Recorder = node.plugin()
    mark = node.folder / "hook-ran"

    def adjust(_: Any, container: Any) -> nri.Adjustment:
        adjustment = nri.Adjustment()
        adjustment.add_env("ADDED", "new").add_env("KEPT", "changed").remove_env("GONE")
        adjustment.add_rlimit("RLIMIT_NOFILE", soft=100, hard=200)
        adjustment.remove_mount("/data/b").set_cpu_shares(321)
        adjustment.add_hook("create_runtime", "/bin/touch", ["touch", str(mark)])
        return adjustment

    plugin.on["create"] = adjust
    for name in ("a", "b"):
        (node.folder / "data" / name).mkdir(parents=True)
    made = node.run(
        node.pod(),
        command=("sh", "-c", "env; ulimit -n; ulimit -Hn; ls /data; sleep 1000"),
        envs=[pb.KeyValue(key=key, value=b"old") for key in ("KEPT", "GONE")],
        mounts=[
            pb.Mount(container_path=f"/data/{name}", host_path=str(node.folder / "data" / name)) for name in ("a", "b")
        ],
    )
    log = node.folder / "logs/pod/c.log"
    node.wait_for(lambda: log.read_text().endswith(" a\n"), "all that the container says")
    lines = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    assert {"ADDED=new", "KEPT=changed"} <= {*lines} and not [line for line in lines if line.startswith("GONE")]
    assert lines[-3:] == ["100", "200", "a"]
    assert mark.exists() and shares(node, made) == "321"


# --- how plugins come and go ---

INSTALLED = """\
#!{python}
import os, nri

class Installed(nri.Plugin):
    def configure(self):
        open({folder!r} + "/configured", "w").write(str(self.config))
        open({folder!r} + "/pid", "w").write(str(os.getpid()))

    def synchronize(self, pods, containers):
        open({folder!r} + "/synchronized", "w").write(" ".join(c.name for c in containers))

    def create_container(self, pod, container):
        before = [row for row in container.env if row.startswith("PLACE_")]
        return nri.Adjustment().add_env("PLACE_" + {letter!r}, str(len(before)))

Installed.main()
"""


def install(node: Node, name: str, letter: str) -> Path:
    """A plugin of the node, to be launched by the engine."""
    folder = node.folder / f"of-{name}"
    folder.mkdir()
    plugins = Path(node.config.nri.plugin_path)
    plugins.mkdir(exist_ok=True, mode=0o755)
    program = plugins / name
    program.write_text(textwrap.dedent(INSTALLED).format(python=sys.executable, folder=str(folder), letter=letter))
    program.chmod(0o755)
    return folder


def test_installed_and_connected_plugins_are_asked_by_index_and_launched_ones_end_with_the_engine(node: Node) -> None:
    folder = install(node, "15-inst", "b")
    conf = Path(node.config.nri.plugin_config_path)
    conf.mkdir(mode=0o755)
    (conf / "inst.conf").write_text("word: fallback\n")
    bare = install(node, "35-bare", "d")  # without a configuration
    pod = node.pod()
    for index, letter in (("20", "c"), ("10", "a")):
        plugin: Recorder = node.plugin(index=index, name=f"p{index}")

        def add(_: Any, container: Any, letter: str = letter) -> nri.Adjustment:
            before = [row for row in container.env if row.startswith("PLACE_")]
            return nri.Adjustment().add_env(f"PLACE_{letter}", str(len(before)))

        plugin.on["create"] = add
    container_id = node.create(pod)
    places = [row for row in spec_of(node, container_id)["process"]["env"] if row.startswith("PLACE_")]
    assert places == ["PLACE_a=0", "PLACE_b=1", "PLACE_c=2", "PLACE_d=3"]
    assert "fallback" in (folder / "configured").read_text()
    pids = [int((path / "pid").read_text()) for path in (folder, bare)]
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    node.stop()
    node.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the end of launched plugins")
    node.start()
    node.wait_for(lambda: (folder / "synchronized").read_text() == "c", "that they are given the state, too")


def test_a_launched_plugin_ends_with_an_engine_that_is_killed(node: Node) -> None:
    folder = install(node, "15-inst", "b")
    killed_while(node, lambda _: die())
    pid = int((folder / "pid").read_text())
    node.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "its end")


def test_plugins_get_the_events_that_they_subscribed_to_and_no_others(node: Node) -> None:
    class Pods(nri.Plugin):
        seen: list[str] = []  # noqa: RUF012

        def run_pod_sandbox(self, pod: Any) -> None:
            self.seen.append("run")

        def remove_pod_sandbox(self, pod: Any) -> None:
            self.seen.append("remove")

    class Stops(nri.Plugin):
        seen: list[str] = []  # noqa: RUF012

        def stop_container(self, pod: Any, container: Any) -> None:
            self.seen.append(container.name)

    pods, stops = node.plugin(Pods(), "10", "pods"), node.plugin(Stops(), "20", "stops")
    pod = node.pod()
    node.run(pod)
    node.remove(pod)
    assert (pods.seen, stops.seen) == (["run", "remove"], ["c"])


DYING = """
import os, signal, nri

class Dying(nri.Plugin):
    def create_container(self, pod, container):
        if container.name == "fatal":
            os.kill(os.getpid(), signal.SIGKILL)
        return nri.Adjustment().add_env("DYING", "was-here")

Dying.main()
"""


def test_a_plugin_that_dies_leaves_nothing_and_the_others_go_on(node: Node) -> None:
    staying: Recorder = node.plugin(index="20", name="staying")
    staying.on["create"] = lambda *_: nri.Adjustment().add_env("STAYING", "yes")
    program = node.folder / "dying.py"
    program.write_text(DYING)
    adaptation = node.engine.nri.adaptation
    assert adaptation is not None
    dying = PluginProgram(
        node.folder, program, "--name", "dying", "--idx", "10", "--socket", node.config.nri.socket_path
    )
    try:
        assert adaptation.ready(["10-dying"], 20)
        pod = node.pod()
        before = spec_of(node, node.create(pod, "before"))["process"]["env"]
        assert {"DYING=was-here", "STAYING=yes"} <= {*before}
        container_id = node.create(pod, "fatal")  # it failed, and fails nothing
        env = spec_of(node, container_id)["process"]["env"]
        assert "STAYING=yes" in env and "DYING=was-here" not in env
        assert dying.process.wait(20) == -signal.SIGKILL
        node.wait_for(lambda: not adaptation.ready(["10-dying"]), "its leaving")
        node.run(pod, "after")
        assert staying.of("fatal") == ["create", "post_create"] and staying.of("after")[0] == "create"
        node.remove(pod)
        node.assert_nothing_left()
    finally:
        dying.process.kill()
        dying.process.wait()


def test_a_second_plugin_of_one_name_is_refused_and_the_first_goes_on(node: Node) -> None:
    first: Recorder = node.plugin()
    with pytest.raises(NriError):
        node.plugin()
    node.pod()
    assert first.of("pod") == ["run_pod"]


def test_a_plugin_that_joins_while_containers_are_made_misses_none(node: Node) -> None:
    pod = node.pod()
    container_ids: list[str] = []

    def make() -> None:
        for number in range(8):
            container_ids.append(f"c{number}")
            node.create(pod, f"c{number}")

    thread = threading.Thread(target=make)
    thread.start()
    joined: list[Recorder] = []
    for number in range(4):
        time.sleep(0.15)
        joined.append(node.plugin(index=f"{20 + number}", name=f"late{number}"))
    thread.join(60)
    for plugin in joined:
        ((_, containers),) = plugin.synchronized
        events = [name for event, name in plugin.events if event == "create"]
        assert sorted([*containers, *events]) == container_ids, (containers, events)


def test_an_update_without_an_id_is_left_out_and_fails_nothing(node: Node) -> None:
    plugin: Recorder = node.plugin()
    plugin.on["update"] = lambda *_: [_without_id()]
    container_id = node.run(node.pod())
    node.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=100))
    assert shares(node, container_id) == "100"


def _without_id() -> m.ContainerUpdate:
    update = m.ContainerUpdate()
    update.linux.resources.cpu.shares.value = 700
    return update
