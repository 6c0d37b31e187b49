"""Restarts of the engine, planned or by SIGKILL at each step; conmon and the OCI runtime are killed, too.

Running containers keep running, half-made ones are removed, and plugins receive each event that they missed once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation import BuiltinPlugin
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import OciRuntime
from nri.engine.engine import Engine
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.undo import Undo
from nri.engine.process import Runtime
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError
from nri.errors import NriError
from tests.engine.machine import settled
from tests.engine.node import CGROUPS, POLITE, Node, Recorder, die, killed_while
from tests.support.plugin_program import PluginProgram

#: Each step of a life after which the engine is killed; the first one is before all.
POD_STEPS = ("", "record", "folders", "namespaces", "network", "files", "holder", "NRI")
CONTAINER_STEPS = ("", "record", "bundle", "root", "NRI", "answer", "process")


def die_after(name: str, thing: str) -> None:
    """Have this process killed after a step of making a pod or a container; "" is before the first one."""
    step = Undo.step

    def dying(self: Undo, actual: str, do: Callable[[], Any], undo: Callable[[], Any]) -> Any:
        startswith = self._subject.startswith(thing)
        if startswith and not name:
            die()
        result = step(self, actual, do, undo)
        if startswith and actual == name:
            die()
        return result

    Undo.step = dying  # type: ignore[method-assign]


def test_a_kill_at_any_step_of_a_pod_creation_leaves_nothing(node: Node) -> None:
    config = node.pod_config(network=pb.POD, pid=pb.POD)
    for name in POD_STEPS:
        killed_while(node, lambda engine, name=name: (die_after(name, "pod"), engine.pod_creation.run(config)))  # type: ignore[misc]
        engine = node.start()
        assert (engine.inventory.pods(), engine.complaints) == ([], []), name
        node.assert_nothing_left()
    pod = node.engine.pod_creation.run(config)
    assert node.engine.inventory.pod(pod).record.state is PodState.READY


def test_a_kill_at_any_step_of_a_container_creation_keeps_the_pod(node: Node) -> None:
    pod = node.pod(network=pb.POD)
    node.engine.container_removal.remove(node.create(pod))  # with the first container there is a cgroup of the pod
    before = sorted(node.leftovers())
    for name in CONTAINER_STEPS:
        killed_while(
            node,
            lambda engine, name=name: (  # type: ignore[misc]
                die_after(name, "container"),
                engine.container_creation.create(pod, node.container_config()),
            ),
        )
        engine = node.start()
        assert (engine.inventory.containers(), engine.complaints) == ([], []), name
        leftovers = settled(lambda: sorted(set(node.leftovers()) - set(before)))
        assert leftovers == [], name
    container_id = node.run(pod)
    assert node.engine.inventory.container(container_id).record.state is ContainerState.RUNNING


def killer(node: Node, path: Path, program: str, condition: str, late_s: int = 0) -> str:
    """Write a program that kills the engine in the middle of a step, then continues, if required after a delay."""
    late = f" && sleep {late_s}" if late_s else ""
    path.write_text(f'#!/bin/sh\n{condition} && kill -9 $(cat {node.folder}/engine.pid){late}\nexec {program} "$@"\n')
    path.chmod(0o755)
    return str(path)


def _wait_gone(node: Node, word: str) -> None:
    """Wait until no process of the machine has this word on its command line."""
    node.wait_for(lambda: not [line for _, line in node.machine.processes() if word in line], f"the end of {word}")


def _with_pid(node: Node, work: Callable[[Engine], Any]) -> Callable[[Engine], None]:
    def go(engine: Engine) -> None:
        (node.folder / "engine.pid").write_text(str(os.getpid()))
        work(engine)

    return go


def test_a_kill_while_the_oci_runtime_creates_a_container_leaves_nothing(node: Node) -> None:
    for handler in ("runc", "crun"):
        pod = node.pod(f"of-{handler}", network=pb.POD, handler=handler)
        node.engine.container_removal.remove(node.create(pod))
        before = sorted(node.leftovers())
        binary = str(node.folder / "crun") if handler == "crun" else "runc"
        program = killer(
            node, node.folder / f"killer-{handler}", binary, 'case " $* " in *" create "*) ;; *) false;; esac'
        )
        config = node.config
        node.config = replace(config, runtimes={**config.runtimes, handler: OciRuntime(program)})
        killed_while(
            node,
            _with_pid(node, lambda engine, pod=pod: engine.container_creation.create(pod, node.container_config())),
        )  # type: ignore[misc]
        node.config = config
        engine = node.start()
        assert (engine.inventory.containers(), engine.complaints) == ([], [])
        assert settled(lambda before=before: sorted(set(node.leftovers()) - set(before))) == []
        node.remove(pod)
    node.assert_nothing_left()


def test_a_kill_before_conmon_starts_leaves_nothing_of_the_container(node: Node) -> None:
    pod = node.pod()
    node.engine.container_removal.remove(node.create(pod))
    before = sorted(node.leftovers())
    usual = node.config
    node.config = replace(usual, conmon=killer(node, node.folder / "late", "conmon", "true", late_s=1))
    killed_while(node, _with_pid(node, lambda engine: engine.container_creation.create(pod, node.container_config())))
    node.config = usual
    engine = node.start()
    assert (engine.inventory.containers(), engine.complaints) == ([], [])
    _wait_gone(node, "conmon")
    _wait_gone(node, f"{node.folder}/late")
    assert settled(lambda: sorted(set(node.leftovers()) - set(before))) == []
    node.remove(pod)


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_kill_during_network_setup_or_teardown_leaves_no_address(node: Node, command: str) -> None:
    config = node.pod_config(network=pb.POD)
    pod = node.engine.pod_creation.run(config) if command == "DEL" else ""
    folder = node.folder / "cni-killer"
    folder.mkdir()
    killer(node, folder / "host-local", "/usr/lib/cni/host-local", f"[ $CNI_COMMAND = {command} ]")
    (folder / "ptp").symlink_to("/usr/lib/cni/ptp")
    usual = node.config
    node.config = replace(usual, network=replace(usual.network, plugin_dirs=(folder,)))
    killed_while(
        node, _with_pid(node, lambda engine: engine.pod_removal.remove(pod) if pod else engine.pod_creation.run(config))
    )
    node.config = usual
    node.start()
    node.remove(*([pod] if pod else []))
    assert node.engine.inventory.pods() == [] and node.engine.complaints == []
    _wait_gone(node, "cni-killer")
    node.assert_nothing_left()


#: A `host-local` whose first ADD kills the engine and comes to its end in the middle of the next engine's DEL.
LATE = """\
#!/bin/sh
cd {folder}
if [ $CNI_COMMAND = ADD ]; then
    echo $PPID > adding && kill -9 $(cat {node}/engine.pid)
    until [ -e go ]; do sleep 0.02; done
    exec /usr/lib/cni/host-local
fi
/usr/lib/cni/host-local
code=$?
touch go
while [ -e /proc/$(cat adding) ]; do sleep 0.02; done
exit $code
"""


def test_a_late_network_setup_of_a_killed_engine_does_not_outlive_the_teardown(node: Node) -> None:
    folder = node.folder / "cni-late"
    folder.mkdir()
    (folder / "host-local").write_text(LATE.format(folder=folder, node=node.folder))
    (folder / "host-local").chmod(0o755)
    (folder / "ptp").symlink_to("/usr/lib/cni/ptp")
    node.config = replace(node.config, network=replace(node.config.network, plugin_dirs=(folder,)))
    config = node.pod_config(network=pb.POD)
    killed_while(node, _with_pid(node, lambda engine: engine.pod_creation.run(config)))
    engine = node.start()
    assert (engine.inventory.pods(), engine.complaints) == ([], [])
    node.assert_nothing_left()


def _at_start_event(engine: Engine) -> None:
    Domain.start = lambda *_: die()  # type: ignore[method-assign]


def _before_the_start(engine: Engine) -> None:
    Runtime.start = lambda *_: die()  # type: ignore[method-assign]


def _after_the_start(engine: Engine) -> None:
    start = Runtime.start
    Runtime.start = lambda *arguments: (start(*arguments), die())  # type: ignore[method-assign,func-returns-value,assign]


def _after_it_counts(engine: Engine) -> None:
    Domain.post_start = lambda *_: die()  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("kill", "states"),
    [
        (_at_start_event, [ContainerState.CREATED]),
        (_before_the_start, [ContainerState.CREATED]),
        (_after_the_start, [ContainerState.RUNNING]),
        (_after_it_counts, [ContainerState.RUNNING]),
    ],
)
def test_a_kill_during_a_start_leaves_the_right_container_state(
    node: Node, kill: Any, states: list[ContainerState]
) -> None:
    pod = node.pod()
    container_id = node.create(pod)
    killed_while(node, lambda engine: (kill(engine), engine.container_start.start(container_id)))  # type: ignore[func-returns-value]
    node.start()
    assert [node.engine.inventory.container(container_id).record.state] == states
    if states == [ContainerState.CREATED]:
        node.engine.container_start.start(container_id)
    assert node.engine.running_containers.exec_sync(container_id, ["true"], 20).code == 0
    node.engine.container_removal.stop(container_id, 0)


@pytest.mark.parametrize("step", ["stop", "remove", "stop_pod", "remove_pod"])
def test_a_stop_or_removal_interrupted_by_a_kill_can_be_repeated(node: Node, step: str) -> None:
    pod = node.pod(network=pb.POD)
    container_id = node.run(pod)
    calls: dict[str, Callable[[Engine], None]] = {
        "stop": lambda engine: engine.container_removal.stop(container_id),
        "remove": lambda engine: engine.container_removal.remove(container_id),
        "stop_pod": lambda engine: engine.pod_removal.stop(pod),
        "remove_pod": lambda engine: engine.pod_removal.remove(pod),
    }

    def work(engine: Engine) -> None:
        setattr(Domain, step, lambda *_: die())
        calls[step](engine)
        time.sleep(20)

    killed_while(node, work)
    node.start()
    calls[step](node.engine)
    if step.startswith("remove"):
        inventory = node.engine.inventory
        assert (inventory.containers() if step == "remove" else inventory.pods()) == []
    node.remove(pod)
    node.assert_nothing_left()


def test_a_kill_after_the_cleanup_of_a_container_keeps_its_exit_code(node: Node) -> None:
    pod = node.pod()
    container_id = node.run(pod, "c", POLITE)
    node.wait_for(lambda: "ready" in (node.folder / "logs/pod/c.log").read_text(), "its trap")

    def work(engine: Engine) -> None:
        clear = Processes.remove
        Processes.remove = lambda *arguments: (clear(*arguments), die())  # type: ignore[method-assign,func-returns-value,assign]
        engine.container_removal.stop(container_id, 20)

    killed_while(node, work)
    node.start()
    node.wait_exited(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.exit_code, record.reason) == (3, "Error")


def test_containers_survive_a_kill_of_the_engine_and_exits_are_reported_once(node: Node) -> None:
    pod = node.pod(network=pb.POD, pid=pb.POD)
    runs_on = {name: node.run(pod, name, POLITE) for name in ("on", "ended", "later")}
    node.wait_for(lambda: "ready" in (node.folder / "logs/pod/later.log").read_text(), "its trap")
    never = node.create(pod, "never", ("/nonesuch",))
    killed_while(node, lambda _: die())
    assert node.machine.leftovers(), "everything is gone"
    ended = [pid for pid, line in node.machine.processes() if runs_on["ended"] in line]
    _kill_child(ended)
    plugin = Recorder()
    node.start(builtin=[_builtin(plugin)])
    node.wait_exited(runs_on["ended"])
    assert {container.id for container in node.engine.inventory.containers()} == {never, *runs_on.values()}
    assert node.engine.inventory.container(runs_on["ended"]).record.exit_code == 137
    assert node.engine.running_containers.exec_sync(runs_on["on"], ["true"], 20).code == 0
    # plugins that missed the end see it come
    assert plugin.synchronized == [(["pod"], ["on", "ended", "later", "never"])]
    with pytest.raises(NriError, match="nonesuch"):
        node.engine.container_start.start(never)
    node.engine.container_removal.stop(runs_on["later"], 20)
    assert node.engine.inventory.container(runs_on["later"]).record.exit_code == 3
    node.engine.pod_removal.remove(pod)
    assert plugin.of("ended") == plugin.of("later") == plugin.of("on") == plugin.of("never") == ["stop", "remove"]
    assert plugin.of("pod") == ["stop_pod", "remove_pod"]
    node.assert_nothing_left()


def _kill_child(conmons: list[int]) -> None:
    """Kill the container below a conmon."""
    (conmon,) = conmons
    children = Path(f"/proc/{conmon}/task/{conmon}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)


def _builtin(recorder: Recorder) -> BuiltinPlugin:
    """A recorder inside the engine, so that it takes part from the first moment of its life."""
    inside = type("Inside", (), {})()
    for name in ("synchronize", "stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"):
        setattr(inside, name, getattr(recorder, name))
    return BuiltinPlugin("10", "recorder", inside)


PROGRAM = """
import sys, nri

class Watch(nri.Plugin):
    def say(self, *words):
        print(*words, flush=True)
    def synchronize(self, pods, containers):
        self.say("synchronized", *sorted(c.name for c in containers))
    def stop_container(self, pod, container):
        self.say("stop", container.name)
    def remove_container(self, pod, container):
        self.say("remove", container.name)

Watch.main()
"""


def test_an_external_plugin_reconnects_and_receives_missed_events(node: Node) -> None:
    pod = node.pod()
    container_id = node.run(pod, "gone", ("sh", "-c", "while [ ! -e /tmp/end ]; do sleep 0.05; done"))
    rootfs = Path(node.engine.inventory.container(container_id).record.rootfs)
    node.stop()
    program = node.folder / "watch.py"
    program.write_text(PROGRAM)
    watch = PluginProgram(
        node.folder, program, "--name", "watch", "--idx", "10", "--socket", node.config.nri.socket_path
    )
    try:
        killed_while(node, lambda _: _until_it_is_noted(node))
        (rootfs / "tmp/end").touch()
        node.wait_for(
            lambda: not [pid for pid, line in node.machine.processes() if container_id in line], "conmon's end"
        )
        node.start()
        node.wait_exited(container_id)
        node.engine.container_removal.remove(container_id)
        node.wait_for(lambda: "remove gone" in watch.text(), "the last event")
        lines = [line for line in watch.text().splitlines() if " INFO " not in line and " WARNING " not in line]
        assert lines == ["synchronized gone", "synchronized gone", "stop gone", "remove gone"]
    finally:
        watch.process.kill()
        watch.process.wait()


def _until_it_is_noted(node: Node) -> None:
    noted = node.config.root / "plugins.json"
    node.wait_for(lambda: noted.exists() and "10-watch" in noted.read_text(), "the note that the plugin takes part")
    die()


def test_updates_and_names_survive_a_restart(node: Node) -> None:
    pod = node.pod()
    container_id = node.run(pod)
    node.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=200))
    node.restart()
    plugin: Recorder = node.plugin()
    shown: list[int] = []
    plugin.on["update"] = lambda _, container: shown.append(container.linux.resources.cpu.shares.value)
    node.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=400))
    assert shown == [200] and node.cgroup(container_id, "cpu", "cpu.shares") == "400"
    with pytest.raises(NriError, match="already used by"):
        node.create(pod)
    assert node.engine.inventory.container(container_id[:10]).record.id == container_id


def test_a_container_with_a_killed_conmon_is_stopped_and_reported(node: Node) -> None:
    plugin: Recorder = node.plugin()
    container_id = node.run(node.pod())
    os.kill(node.engine.inventory.container(container_id).record.conmon_pid, signal.SIGKILL)
    node.wait_exited(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.exit_code, record.reason) == (137, "MonitorLost")
    assert plugin.of("c") == ["create", "post_create", "start", "post_start", "stop"]


@pytest.mark.parametrize("pid", [pb.CONTAINER, pb.POD])
def test_processes_left_by_a_killed_oci_runtime_are_killed(node: Node, pid: int) -> None:
    """runc's first process stays like this if runc is killed while it processes very many variables."""
    wrapper = node.folder / "leaver"
    wrapper.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" create "*) ;; *) exec runc "$@";; esac\n'
        "for id; do :; done\n"
        f"for top in {CGROUPS}/cgroup.procs {CGROUPS}/*/cgroup.procs; do\n"
        '  [ -e "$top" ] || continue\n'
        f'  for pod in "${{top%/cgroup.procs}}/{node.machine.name}"/pod*; do\n'
        '    [ -e "$pod" ] && mkdir -p "$pod/$id" && echo $$ > "$pod/$id/cgroup.procs"\n'
        "  done\n"
        "done\n"
        "setsid sleep 1000 < /dev/null > /dev/null 2>&1 &\n"
        "kill -9 $$\n"
    )
    wrapper.chmod(0o755)
    node.start(replace(node.config, runtimes={"runc": OciRuntime("runc"), "crun": OciRuntime(str(wrapper))}))
    with pytest.raises(EngineError, match=r"killed|without an error message"):
        node.create(node.pod(pid=pid, handler="crun"))
    for pod in node.engine.inventory.pods():
        node.engine.pod_removal.remove(pod.id)
    node.assert_nothing_left()


@pytest.fixture
def mortal(node: Node) -> Callable[[str], None]:
    """An engine whose OCI runtime is killed by the command that is named last; "" for none."""
    wrapper, doomed = node.folder / "mortal", node.folder / "doomed"
    wrapper.write_text(f'#!/bin/sh\ncase " $* " in *" $(cat {doomed}) "*) kill -9 $$;; *) exec runc "$@";; esac\n')
    wrapper.chmod(0o755)

    def doom(command: str) -> None:
        doomed.write_text(command or "none")

    doom("")
    node.start(replace(node.config, runtimes={"runc": OciRuntime(str(wrapper))}))
    return doom


def test_an_oci_runtime_killed_during_a_creation_is_an_error_and_leaves_nothing(
    node: Node, mortal: Callable[[str], None]
) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    mortal("create")
    with pytest.raises(EngineError, match=r"killed|without an error message"):
        node.create(pod)
    assert plugin.of("c") == ["create", "stop", "remove"]
    mortal("")
    node.run(pod)
    node.remove(pod)
    node.assert_nothing_left()


def test_an_oci_runtime_killed_during_a_start_stops_the_container(node: Node, mortal: Callable[[str], None]) -> None:
    plugin: Recorder = node.plugin()
    container_id = node.create(node.pod())
    mortal("start")
    with pytest.raises(EngineError, match="start"):
        node.engine.container_start.start(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.state, record.reason) == (ContainerState.EXITED, "StartError")
    assert plugin.of("c") == ["create", "post_create", "start", "stop"]


@pytest.mark.parametrize("command", ["kill", "delete", "update"])
def test_a_call_can_be_repeated_after_its_oci_runtime_was_killed(
    node: Node, mortal: Callable[[str], None], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a container whose conmon is not its parent: the runtime has to send the signal.
    monkeypatch.setattr("nri.engine.lifecycle.processes.send", lambda *_: False)
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id = node.run(pod)
    engine = node.engine
    mortal(command)
    if command == "update":
        with pytest.raises(EngineError, match="update"):
            engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=200))
        mortal("")
        engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=200))
        assert node.cgroup(container_id, "cpu", "cpu.shares") == "200"
    elif command == "kill":
        with pytest.raises(EngineError, match="kill"):
            engine.container_removal.stop(container_id)
        assert engine.inventory.container(container_id).record.state is ContainerState.RUNNING
        mortal("")
        engine.container_removal.stop(container_id)
    else:
        monkeypatch.setattr(engine.machinery.runtime("runc"), "timeout_s", 2)  # it tries so long
        engine.container_removal.stop(container_id)
        with pytest.raises(EngineError, match="delete"):
            engine.container_removal.remove(container_id)
        monkeypatch.undo()
        mortal("")
        engine.container_removal.remove(container_id)
    node.remove(pod)
    assert plugin.of("c")[-2:] == ["stop", "remove"] and plugin.of("c").count("stop") == 1
    node.assert_nothing_left()


@pytest.mark.parametrize("program", ["runtime", "conmon"])
def test_a_missing_program_is_an_error_with_its_path(node: Node, program: str) -> None:
    missing = f"/nonexistent/{program}"
    change: dict[str, Any] = {"conmon": missing} if program == "conmon" else {"runtimes": {"runc": OciRuntime(missing)}}
    pod = node.pod()
    node.stop()
    node.start(replace(node.config, **change))
    (ready,) = [row for row in node.engine.conditions if row.kind == "RuntimeReady"]
    assert not ready.holds and missing in ready.message
    with pytest.raises(EngineError, match=missing):
        node.create(pod)
    assert node.engine.inventory.containers() == []
    assert not [*Path("/sys/fs/cgroup").rglob(f"{node.machine.name}/**/conmon-*")]
    node.restart()
    assert all(row.holds for row in node.engine.conditions)
    node.remove(pod)
    node.assert_nothing_left()


def test_a_conmon_killed_during_a_creation_is_an_error_and_leaves_nothing(node: Node) -> None:
    wrapper = node.folder / "dying"
    wrapper.write_text("#!/bin/sh\nkill -9 $$\n")
    wrapper.chmod(0o755)
    node.start(replace(node.config, conmon=str(wrapper)))
    plugin: Recorder = node.plugin()
    pod = node.pod()
    with pytest.raises(EngineError, match="killed"):
        node.create(pod)
    assert plugin.of("c") == ["create", "stop", "remove"]
    node.restart()
    node.remove(pod)
    node.assert_nothing_left()


def test_all_containers_have_exited_after_a_reboot(node: Node) -> None:
    pod = node.pod(network=pb.POD)
    container_id = node.run(pod)
    node.stop()
    # What a restart of the machine takes: processes, mounts, and all below /run.
    for pid, _ in node.machine.processes():
        os.kill(pid, signal.SIGKILL)
    node.wait_for(lambda: not node.machine.processes(), "the end of all processes")
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if str(node.folder) in line:
            subprocess.run(["umount", "-l", line.split()[4]], check=True, timeout=20)
    subprocess.run(["rm", "-rf", str(node.config.state)], check=True, timeout=20)
    node.start()
    node.wait_exited(container_id)
    assert node.engine.inventory.pod(pod).record.state is PodState.STOPPING
    assert node.engine.inventory.container(container_id).record.state is ContainerState.EXITED
    node.remove(pod)


def test_a_full_disk_is_reported_and_leaves_nothing(node: Node) -> None:
    root = node.config.root
    aside = root.rename(root.with_name("aside"))
    root.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "small", str(root)], check=True, timeout=20)
    try:
        shutil.copytree(aside, root, symlinks=True, dirs_exist_ok=True)
        pod = node.pod(network=pb.POD)
        running = node.run(pod, "running")
        plugin: Recorder = node.plugin()
        filler = root / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(65 << 20))
        with pytest.raises(EngineError, match="No space left"):
            node.create(pod)
        with pytest.raises(EngineError, match="No space left"):
            node.pod("second", network=pb.POD)
        assert [plugin.of("c"), plugin.of("second")] in ([[], []], [["create", "stop", "remove"], []])
        node.engine.container_removal.stop(running)  # what ends, ends
        assert node.engine.inventory.container(running).record.exit_code == 137
        filler.unlink()
        node.engine.container_removal.remove(node.run(pod))
        node.remove(pod)
        assert settled(lambda: [line for line in node.leftovers() if " - tmpfs small " not in line]) == []
    finally:
        node.stop()
        subprocess.run(["umount", "-l", str(root)], check=True, timeout=20)
        root.rmdir()
        aside.rename(root)


@pytest.mark.parametrize("which", ["root", "state"])
def test_a_container_that_exits_while_the_disk_is_full_keeps_its_exit_code(node: Node, which: str) -> None:
    folder = {"root": node.config.root, "state": node.config.state}[which]
    aside = folder.with_name("aside")
    if folder.exists():
        folder.rename(aside)
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "small", str(folder)], check=True, timeout=20)
    try:
        if aside.exists():
            shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        pod = node.pod()
        container = node.run(pod, "c", POLITE)
        node.wait_for(lambda: "ready" in (node.folder / "logs/pod/c.log").read_text(), "its trap")
        filler = folder / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(65 << 20))
        node.engine.container_removal.stop(container, 20)
        for _ in range(2):  # also after a restart
            record = node.engine.inventory.container(container).record
            assert (record.exit_code, record.reason) == (3, "Error")
            node.restart()
            node.wait_exited(container)
        filler.unlink()
        node.remove(pod)
    finally:
        node.stop()
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=20)
        folder.rmdir()
        if aside.exists():
            aside.rename(folder)


def test_a_failed_write_of_the_last_record_reverts_the_creation(node: Node) -> None:
    pod = node.pod()
    records = node.engine.inventory.store
    put = records.put

    def full(record: Any, **options: Any) -> None:
        if getattr(record, "state", "") == ContainerState.CREATED:
            raise OSError(28, "No space left on device")
        put(record, **options)

    records.put = full  # type: ignore[method-assign]
    plugin: Recorder = node.plugin()
    with pytest.raises(EngineError, match="No space left"):
        node.create(pod)
    assert plugin.of("c") == ["create", "stop", "remove"]
    records.put = put  # type: ignore[method-assign]
    node.remove(pod)
    node.assert_nothing_left()


def test_containers_and_pods_without_a_record_are_removed(node: Node) -> None:
    pod = node.pod("lost", network=pb.POD, pid=pb.POD)
    node.run(pod, "lost")
    kept_id = node.run(node.pod("kept"), "kept")
    node.stop()
    for path in (node.config.root / "records").rglob("*.json"):
        if '"lost"' in path.read_text():
            path.unlink()  # a machine's sudden end can do that
    node.start()
    assert [container.id for container in node.engine.inventory.containers()] == [kept_id]
    assert node.engine.running_containers.exec_sync(kept_id, ["true"], 20).code == 0
    assert node.engine.complaints == []
    assert settled(lambda: [line for line in node.leftovers() if pod in line]) == []
    node.run(node.pod("lost", network=pb.POD), "lost")


def test_an_unreadable_record_stops_no_container_and_can_be_restored(node: Node) -> None:
    pod = node.pod()
    container = node.run(pod)
    node.stop()
    path = node.config.root / "records/pods" / f"{pod}.json"
    text = path.read_text()
    path.write_text("{")
    node.start()
    assert [(pod.id, pod.record.state) for pod in node.engine.inventory.pods()] == [(pod, PodState.STOPPING)]
    assert any("set aside" in line for line in node.engine.complaints)
    assert node.engine.running_containers.exec_sync(container, ["true"], 20).code == 0
    node.stop()
    path.write_text(text)
    node.start()
    assert node.engine.inventory.pod(pod).record.state is PodState.READY
    assert node.engine.running_containers.exec_sync(container, ["true"], 20).code == 0
