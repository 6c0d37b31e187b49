"""Containers of runc and crun under conmon: made, started, run into, ended; also by force, and over a restart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.process import Attachment, ExecResult, Execution, Exit, Runtime, exec_sync, read_interfaces, read_stats
from nri.engine.process.conmon import find_conmon
from nri.engine.process.execution import exec_process
from nri.engine.process.exits import KILLED, MONITOR_LOST, OOM_KILLED
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, MissingTool, NotFound
from tests.engine.machine import Machine
from tests.engine.node import V2
from tests.support.needs import need_machine


class Container:
    """One container of a test, with all that it needs at hand."""

    def __init__(self, machine: Machine, runtime: Runtime, name: str, script: str, **options: bool) -> None:
        self.machine, self.runtime, self.id = machine, runtime, machine.container_id(name)
        self.bundle = machine.bundle(name, "sh", "-c", script, terminal=options.get("tty", False))
        self.log = self.bundle / "container.log"
        self.pid, self.conmon_pid = machine.conmon().create(
            runtime, self.id, self.bundle, log_path=self.log, **options  # type: ignore[arg-type]
        )  # fmt: skip

    def start(self) -> Container:
        self.runtime.start(self.id)
        return self

    def exec(self, *argv: str, timeout_s: float | None = 30) -> ExecResult:
        process = exec_process(self.machine.process_of(self.bundle), argv)
        return exec_sync(self.runtime, self.id, process, timeout_s=timeout_s)

    def wait_none(self, word: str) -> None:
        """Wait until no process in it has this word on its command line: what is killed ends a moment later."""

        def found() -> bool:
            return word.encode() in self.exec("sh", "-c", "cat /proc/[0-9]*/cmdline").stdout

        self.machine.wait_for(lambda: not found(), f"the end of {word}")

    def ended(self) -> Exit:
        """How it ended, once that was told."""
        self.machine.wait_for(lambda: [row for row in self.machine.exits if row.container_id == self.id], "its end")
        (exit_,) = [row for row in self.machine.exits if row.container_id == self.id]
        return exit_

    def watch(self) -> Container:
        self.machine.watcher().watch(self.id, self.bundle, self.runtime)
        return self

    def logged(self) -> list[str]:
        """Stream, tag and text of each line of the log; the time is checked here."""
        rows = self.log.read_text().splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}[+-]\d\d:\d\d ", row) for row in rows), rows
        return [row.split(" ", 1)[1] for row in rows]


Make = Callable[..., Container]


@pytest.fixture(params=["runc", "crun"])
def make(machine: Machine, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    runtime = machine.runtime(request.param)
    containers: list[Container] = []

    def make_one(script: str, name: str = "a", **options: bool) -> Container:
        containers.append(Container(machine, runtime, name, script, **options))
        return containers[-1]

    yield make_one
    for entry in containers:
        runtime.delete(entry.id)


def test_a_container_waits_for_its_start_and_its_log_and_end_are_told(make: Make) -> None:
    container = make("echo out; echo err >&2; printf part; exit 7").watch()
    assert container.runtime.state(container.id).status == "created"
    assert container.runtime.state(container.id).pid == container.pid
    began = time.time_ns()
    container.start()
    ended = container.ended()
    assert (ended.code, ended.reason) == (7, "Error")
    assert began - 10**9 < ended.finished_at_ns < time.time_ns() + 10**9
    assert sorted(container.logged()) == ["stderr F err", "stdout F out", "stdout P part"]
    assert container.runtime.state(container.id).status == "stopped"
    assert container.runtime.kill(container.id, "TERM") is False
    for _ in range(2):
        container.runtime.delete(container.id)
    with pytest.raises(NotFound, match=container.id):
        container.runtime.state(container.id)


def test_an_end_that_came_while_no_engine_ran_is_told_at_the_next_start(make: Make, machine: Machine) -> None:
    container = make("sleep 0.3; exit 3")
    first = machine.watcher()
    first.watch(container.id, container.bundle, container.runtime)
    first.close()
    machine._watchers.remove(first)
    container.start()
    machine.wait_for(lambda: not find_conmon(container.bundle, container.id), "conmon's end")
    assert machine.exits == []
    container.watch()
    assert container.ended().code == 3


def test_a_container_runs_on_over_a_restart_and_its_end_is_told_once(make: Make, machine: Machine) -> None:
    container = make("while [ ! -e /stop ]; do sleep 0.02; done; exit 4").start()
    for _ in range(2):  # two lives of an engine
        watcher = machine.watcher()
        watcher.watch(container.id, container.bundle, container.runtime)
        watcher.close()
        machine._watchers.remove(watcher)
    container.watch()
    (container.bundle / "rootfs/stop").touch()
    assert container.ended().code == 4
    time.sleep(0.1)
    assert len(machine.exits) == 1


def test_a_container_killed_from_outside_ended_with_137(make: Make) -> None:
    container = make("sleep 300").watch().start()
    os.kill(container.pid, signal.SIGKILL)
    assert (container.ended().code, container.ended().reason) == (137, "Error")


def test_a_signal_reaches_the_first_process(make: Make) -> None:
    container = make("trap 'exit 9' TERM; echo ready; while true; do sleep 0.02; done").watch().start()
    container.machine.wait_for(lambda: "stdout F ready" in container.logged(), "the trap")
    assert container.runtime.kill(container.id, "TERM") is True
    assert container.ended().code == 9


def test_a_container_without_its_conmon_is_ended_and_said_to_be_lost(make: Make) -> None:
    container = make("while true; do sleep 0.1; done").watch().start()
    os.kill(container.conmon_pid, signal.SIGKILL)
    ended = container.ended()
    assert (ended.code, ended.reason) == (KILLED, MONITOR_LOST)
    assert container.runtime.state(container.id).status == "stopped"


def test_a_conmon_killed_while_no_engine_ran_is_noticed_at_the_next_start(make: Make) -> None:
    container = make("while true; do sleep 0.1; done").start()
    os.kill(container.conmon_pid, signal.SIGKILL)
    container.machine.wait_for(lambda: not find_conmon(container.bundle, container.id), "conmon's end")
    container.watch()
    assert container.ended().reason == MONITOR_LOST


def test_a_container_that_took_too_much_memory_says_so(make: Make) -> None:
    container = make("x=a; while true; do x=$x$x; done").watch().start()
    assert (container.ended().code, container.ended().reason) == (137, OOM_KILLED)


def test_a_program_in_the_container_runs_to_its_end_with_both_outputs(make: Make) -> None:
    container = make("sleep 300").start()
    result = container.exec("sh", "-c", "echo out; echo err >&2; exit 5")
    assert result == (b"out\n", b"err\n", 5)
    assert container.exec("sh", "-c", "kill -9 $$").code == 137
    big = container.exec(
        "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done"
    )
    assert len(big.stdout) == 2000 * 41


def test_a_child_that_holds_a_programs_output_costs_neither_its_result_nor_its_own_life(make: Make) -> None:
    container = make("sleep 300").start()  # runc waits for the child, crun for its program: docs/known-weaknesses.md
    result = container.exec("sh", "-c", "(sleep 2; echo $? > /tmp-code) & echo hi; exit 3")
    assert result == (b"hi\n", b"", 3)
    script = "until [ -s /tmp-code ]; do sleep 0.1; done; cat /tmp-code"
    assert container.exec("sh", "-c", script).stdout == b"0\n"


def test_a_program_that_is_not_in_the_container_is_named(make: Make) -> None:
    container = make("sleep 300").start()
    with pytest.raises(CommandFailed, match="no-such-program"):
        container.exec("no-such-program")


def test_a_late_program_is_killed_with_its_children(make: Make) -> None:
    container = make("sleep 300").start()
    with pytest.raises(CommandTimeout):
        container.exec("sh", "-c", "sleep 1234 & sleep 1234", timeout_s=0.4)
    container.wait_none("1234")


def test_a_program_is_talked_with_through_pipes(make: Make) -> None:
    container = make("sleep 300").start()
    process = exec_process(container.machine.process_of(container.bundle), ["cat"])
    execution = Execution(container.runtime, container.id, process, stdin=True)
    try:
        assert execution.stdin is not None
        os.write(execution.stdin, b"hello")
        assert os.read(execution.stdout, 100) == b"hello"
        execution.close_stdin()
        assert os.read(execution.stdout, 100) == b""
        assert execution.wait(20) == 0
    finally:
        execution.close()


def test_a_program_has_a_terminal_that_changes_its_size(make: Make) -> None:
    container = make("sleep 300").start()
    process = exec_process(container.machine.process_of(container.bundle), ["sh"], tty=True)
    execution = Execution(container.runtime, container.id, process)
    output = b""
    try:
        assert execution.stdin is not None
        output += os.read(execution.stdout, 4096)  # its prompt
        execution.resize(101, 42)
        deadline = time.monotonic() + 20
        while b"42 101" not in output and time.monotonic() < deadline:
            execution.resize(101, 42)
            os.write(execution.stdin, b"stty size\n")
            time.sleep(0.1)
            output += os.read(execution.stdout, 4096)
        assert b"42 101" in output
        os.write(execution.stdin, b"exit 6\n")
        assert execution.wait(20) == 6
    finally:
        execution.close()


def test_a_program_whose_client_goes_is_killed(make: Make) -> None:
    container = make("sleep 300").start()
    process = exec_process(container.machine.process_of(container.bundle), ["sleep", "4321"])
    execution = Execution(container.runtime, container.id, process)

    def running() -> list[int]:
        return [pid for pid, line in container.machine.processes() if line.strip() == "sleep 4321"]

    container.machine.wait_for(running, "its start")
    execution.close()
    container.machine.wait_for(lambda: not running(), "its end")


def test_a_program_is_killed_also_before_its_runtime_has_told_its_number(make: Make) -> None:
    container = make("sleep 300").start()
    process = exec_process(container.machine.process_of(container.bundle), ["sleep", "4322"])
    for wait_s in (0.0, 0.01, 0.02, 0.03, 0.05, None):
        execution = Execution(container.runtime, container.id, process)
        if wait_s is None:
            container.machine.wait_for(lambda: [*container.runtime.calls.glob("*/pid")], "its start")
            next(container.runtime.calls.glob("*/pid")).unlink()
        else:
            time.sleep(wait_s)
        execution.close()
    container.wait_none("4322")


def test_streams_are_attached_to_and_input_typed(make: Make) -> None:
    container = make("read line; echo got $line; echo bad >&2; sleep 300", stdin=True)
    with Attachment(container.bundle) as attachment:
        container.start()
        attachment.write(b"hello\n")
        pieces = [attachment.read(20), attachment.read(20)]
    assert sorted(piece for piece in pieces if piece) == [(2, b"got hello\n"), (3, b"bad\n")]
    assert container.runtime.state(container.id).status == "running"


def test_the_end_of_input_reaches_a_container_whose_stdin_is_open_once(make: Make) -> None:
    container = make("cat; exit 8", stdin=True, stdin_once=True).watch()
    with Attachment(container.bundle) as attachment:
        container.start()
        attachment.write(b"last")
        assert attachment.read(20) == (2, b"last")
        attachment.close_stdin()
        assert container.ended().code == 8


def test_a_container_with_a_terminal_is_attached_to_and_resized(make: Make) -> None:
    container = make("while true; do stty size; sleep 0.05; done", tty=True, stdin=True)
    with Attachment(container.bundle) as attachment:
        container.start()
        attachment.read(20)
        container.machine.conmon().resize(container.bundle, 99, 33)
        deadline = time.monotonic() + 20
        while (piece := attachment.read(20)) is not None and b"33 99" not in piece[1]:
            assert time.monotonic() < deadline, piece
        assert piece is not None, "it ended before it had its new size"


def test_attaching_to_a_container_that_has_ended_is_an_error(make: Make) -> None:
    container = make("true").watch().start()
    container.ended()
    with pytest.raises(EngineError, match="does not listen"):
        Attachment(container.bundle)


def test_the_log_is_opened_anew_after_it_was_renamed(make: Make) -> None:
    container = make("i=0; while true; do i=$((i+1)); echo line $i; sleep 0.02; done").start()
    container.machine.wait_for(container.log.read_text, "a line")
    old = container.log.rename(container.bundle / "old.log")
    container.machine.conmon().reopen_log(container.bundle, container.log)
    container.machine.wait_for(lambda: len(container.logged()) > 2, "lines in the new log")
    before = [int(row.split()[-1]) for row in old.read_text().splitlines()]
    after = [int(row.split()[-1]) for row in container.logged()]
    assert [*before, *after] == [*range(1, after[-1] + 1)]


def test_resources_are_updated_and_what_is_used_is_read(make: Make) -> None:
    container = make("sleep 300").start()
    container.runtime.update(container.id, {"memory": {"limit": 32 << 20}, "pids": {"limit": 50}})
    stats = read_stats(container.pid)
    assert stats.memory_limit_bytes == 32 << 20
    assert stats.cpu_usage_ns and stats.memory_usage_bytes and stats.rss_bytes is not None
    assert stats.working_set_bytes is not None and 0 < stats.working_set_bytes <= stats.memory_usage_bytes
    assert stats.processes is not None and stats.processes >= 1
    assert [interface.name for interface in read_interfaces(container.pid)] == ["lo"]


def test_conmon_is_put_in_its_place_before_the_container_is_made(machine: Machine) -> None:
    runtime, placed = machine.runtime("runc"), []
    bundle = machine.bundle("a", "sleep", "300")
    folder = Path("/sys/fs/cgroup", "" if V2 else "pids", machine.name, "monitors")
    folder.mkdir(parents=True)

    def place(pid: int) -> None:
        placed.append(pid)
        (folder / "cgroup.procs").write_text(str(pid))

    created = machine.conmon().create(runtime, machine.container_id("a"), bundle, move_to_cgroup=place)
    assert placed and str(created.conmon_pid) in (folder / "cgroup.procs").read_text().split()
    assert str(created.pid) not in (folder / "cgroup.procs").read_text().split()
    runtime.delete(machine.container_id("a"))
    machine.wait_for(lambda: _removed(folder), "conmon's end")


def _removed(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except OSError:
        return False  # its last process is still ending
    return True


# --- creations that fail: the cause is named, and nothing is left -------------------------------------------------


def refused(machine: Machine, match: str, change: Callable[[Path], None], runtime: str = "runc") -> None:
    bundle = machine.bundle("bad", "sleep", "300")
    change(bundle)
    runtime_ = machine.runtime(runtime)
    with pytest.raises(CommandFailed, match=match):
        machine.conmon().create(runtime_, machine.container_id("bad"), bundle)
    with pytest.raises(NotFound):
        runtime_.state(machine.container_id("bad"))
    machine.wait_for(lambda: not find_conmon(bundle, machine.container_id("bad")), "conmon's end")


def edit(old: str, new: str) -> Callable[[Path], None]:
    def change(bundle: Path) -> None:
        text = (bundle / "config.json").read_text()
        assert old in text
        (bundle / "config.json").write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_program_that_is_not_there_is_named(machine: Machine, runtime: str) -> None:
    refused(machine, "no-such-program", edit('"sleep"', '"no-such-program"'), runtime)


def test_a_bundle_without_configuration_is_named(machine: Machine) -> None:
    refused(machine, r"config\.json", lambda bundle: (bundle / "config.json").unlink())


def test_a_mount_whose_source_is_missing_is_named(machine: Machine) -> None:
    bind = '{"destination": "/x", "type": "bind", "source": "/no/such/source", "options": ["bind"]}, '
    refused(machine, "/no/such/source", edit('"mounts": [', f'"mounts": [{bind}'))


def test_what_only_the_runtimes_log_says_is_named(machine: Machine) -> None:
    capabilities = int(Path("/proc/self/status").read_text().partition("CapEff:\t")[2].split()[0], 16)
    need_machine(not capabilities >> 24 & 1, "capability withheld: with CAP_SYS_RESOURCE every score can be set")
    refused(machine, "oom_score_adj", edit('"cwd": "/"', '"cwd": "/", "oomScoreAdj": -999'))


def test_a_runtime_killed_in_the_middle_is_named_and_undone(machine: Machine) -> None:
    bundle, runtime = machine.bundle("a", "sleep", "300"), machine.runtime("runc")
    killer = machine.folder / "runc"
    killer.write_text(f'#!/bin/sh\ncase "$*" in *create*) kill -9 $$;; esac\nexec {runtime.binary} "$@"\n')
    killer.chmod(0o755)
    runtime.binary = str(killer)
    with pytest.raises(CommandFailed, match=r"runc create .*conmon or the runtime was killed"):
        machine.conmon().create(runtime, machine.container_id("a"), bundle)


def test_a_runtime_that_hangs_is_killed_at_the_deadline(machine: Machine) -> None:
    bundle, runtime = machine.bundle("a", "sleep", "300"), machine.runtime("runc")
    slow = machine.folder / "runc"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *create*) sleep 300;; esac\nexec {runtime.binary} "$@"\n')
    slow.chmod(0o755)
    runtime.binary, conmon = str(slow), machine.conmon()
    conmon.timeout_s = 1
    with pytest.raises(CommandTimeout, match="runc create"):
        conmon.create(runtime, machine.container_id("a"), bundle)


def test_a_runtime_killed_at_the_start_is_named(machine: Machine) -> None:
    bundle, runtime = machine.bundle("a", "sleep", "300"), machine.runtime("runc")
    machine.conmon().create(runtime, machine.container_id("a"), bundle)
    real, killer = runtime.binary, machine.folder / "runc"
    killer.write_text("#!/bin/sh\nkill -9 $$\n")
    killer.chmod(0o755)
    runtime.binary = str(killer)
    with pytest.raises(CommandFailed, match=r"runc start .*ended by signal 9"):
        runtime.start(machine.container_id("a"))
    runtime.binary = real
    runtime.delete(machine.container_id("a"))


@pytest.mark.parametrize("tool", ["conmon", "runtime"])
def test_a_missing_program_is_named(machine: Machine, tool: str) -> None:
    bundle, runtime, conmon = machine.bundle("a", "true"), machine.runtime("runc"), machine.conmon()
    if tool == "conmon":
        conmon.binary = "/no/such/conmon"
        with pytest.raises(MissingTool, match="/no/such/conmon"):
            conmon.create(runtime, machine.container_id("a"), bundle)
    else:
        runtime.binary = "/no/such/runc"
        with pytest.raises(CommandFailed, match="/no/such/runc"):
            conmon.create(runtime, machine.container_id("a"), bundle)
        with pytest.raises(MissingTool, match="/no/such/runc"):
            runtime.start(machine.container_id("a"))


# --- an engine that is killed -------------------------------------------------------------------------------------

CREATE = """
import sys, time
from pathlib import Path
from nri.engine.process import Conmon, Runtime
runtime = Runtime(sys.argv[1], Path(sys.argv[2]))
bundle = Path(sys.argv[3])
def place(pid):
    (bundle / "placed").write_text(str(pid))
    time.sleep(300)
placing = sys.argv[4] == "placing"
Conmon("conmon").create(runtime, bundle.name, bundle, move_to_cgroup=place if placing else None)
(bundle / "created").touch()
time.sleep(300)
"""


@pytest.mark.parametrize("moment", ["placing", "created"])
def test_what_an_engine_killed_at_a_creation_left_is_taken_away(machine: Machine, moment: str) -> None:
    bundle, runtime, name = machine.bundle("a", "sleep", "300"), machine.runtime("runc"), machine.container_id("a")
    argv = [sys.executable, "-c", CREATE, runtime.binary, str(runtime.root), str(bundle), moment]
    engine = subprocess.Popen(argv)
    machine.wait_for((bundle / moment.replace("placing", "placed")).exists, f"the engine's {moment}")
    engine.kill()
    engine.wait()
    if moment == "created":
        assert runtime.state(name).status == "created"
    else:  # conmon goes on when nobody holds it any more
        machine.wait_for(lambda: find_conmon(bundle, name), "conmon's start")
    for _ in range(2):
        machine.conmon().remove(runtime, name, bundle)
    assert runtime.containers() == []
    if moment == "placing":
        # A runc that is killed before it has written its state leaves its cgroup, which the engine takes away itself.
        Cgroups(v2=Path("/sys/fs/cgroup/cgroup.controllers").exists()).remove(f"/{machine.name}/a")


def test_many_containers_at_once_end_once_each(machine: Machine) -> None:
    runtime, watcher = machine.runtime("runc"), machine.watcher()

    def live(number: int) -> None:
        bundle = machine.bundle(f"c{number}", "sh", "-c", f"exit {number}")
        machine.conmon().create(runtime, bundle.name, bundle, log_path=bundle / "log")
        watcher.watch(bundle.name, bundle, runtime)
        runtime.start(bundle.name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(24)))
    machine.wait_for(lambda: len(machine.exits) >= 24, "all ends")
    assert {row.container_id: row.code for row in machine.exits} == {
        machine.container_id(f"c{n}"): n for n in range(24)
    }
    assert len(machine.exits) == 24
    for row in machine.exits:
        runtime.delete(row.container_id)
