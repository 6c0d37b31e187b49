"""Exec in a container: the OCI process, its timeout and its end."""

import inspect
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.engine.process import Runtime, execution
from nri.engine.process.execution import exec_process, exec_sync, kill_started, kill_tree, start_with_terminal
from nri.engine.support.errors import CommandTimeout, EngineError, MissingTool
from nri.host import Root
from nri.host.process import numbers, read_stat
from nri.host.root import MACHINE
from tests.support.waiting import wait_for


def test_exec_inherits_the_containers_process_except_arguments_terminal_and_score() -> None:
    container = {
        "args": ["a"],
        "env": ["X=1"],
        "terminal": True,
        "oomScoreAdj": -5,
        "consoleSize": {},
        "user": {"uid": 7},
    }
    assert exec_process(container, ["b", "c"]) == {
        "args": ["b", "c"],
        "env": ["X=1"],
        "terminal": False,
        "user": {"uid": 7},
    }
    assert exec_process(container, ["sh"], tty=True)["terminal"] is True
    assert container["args"] == ["a"]


#: Starts a program that lasts, and takes a moment to look after it when it was killed.
RUNTIME = """\
#!/bin/sh
while [ "$1" != --pid-file ]; do shift; done
sleep 60 &
echo $! > $2
wait $!
sleep 0.1
echo reaped > {folder}/reaped
"""


def test_a_runtime_gets_time_to_reap_a_killed_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the runtime were killed with the program, the program would stay in the container as a zombie."""
    script = tmp_path / "runtime"
    script.write_text(RUNTIME.format(folder=tmp_path))
    script.chmod(0o755)
    kill, stood_s = execution.kill_started, [0.0]
    monkeypatch.setattr(execution, "REAP_S", 20.0)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + stood_s[0], sleep=time.sleep)
    monkeypatch.setattr(execution, "time", clock)

    def late(pid: int, pid_file: Path) -> None:
        wait_for(lambda: pid_file.exists() and pid_file.read_text(), "the program's start")
        stood_s[0] += 30.0  # all of its time is over by now
        kill(pid, pid_file)

    monkeypatch.setattr(execution, "kill_started", late)
    with pytest.raises(CommandTimeout):
        exec_sync(Runtime(str(script), tmp_path / "state"), "c", {"args": ["sleep"]}, timeout_s=0.1)
    assert (tmp_path / "reaped").exists()


def test_the_program_of_a_disconnected_client_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "runtime"
    script.write_text(RUNTIME.format(folder=tmp_path))
    script.chmod(0o755)
    client_gone = threading.Event()
    client_gone.set()
    with pytest.raises(EngineError, match="exec in c: the client has disconnected"):
        exec_sync(Runtime(str(script), tmp_path / "state"), "c", {"args": ["sleep"]}, client_gone=client_gone)


def test_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    stranger, runtime = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    (tmp_path / "pid").write_text(str(stranger.pid))
    kill_started(runtime.pid, tmp_path / "pid")
    kill_started(1, tmp_path / "none")
    for process in (stranger, runtime):
        assert Path(f"/proc/{process.pid}/stat").read_text().split()[2] not in "Tt", "it is not even stopped"
        process.kill()
        process.wait()
    for text in (str(stranger.pid), "", "x"):
        (tmp_path / "pid").write_text(text)
        kill_started(runtime.pid, tmp_path / "pid")


def test_a_program_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; sh -c 'echo $$ > $0; sleep 61; true' $0"
    runtime = subprocess.Popen(["sh", "-c", script, str(tmp_path / "pid")])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    kill_started(runtime.pid, tmp_path / "pid")
    assert runtime.wait(20) != 0
    subprocess.run(["kill", (tmp_path / "child").read_text().strip()], check=True)


FORKS = """\
import os, signal, sys, time
def fork(*_):
    if os.fork() == 0:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        open(sys.argv[2], "w").write(str(os.getpid()))
        time.sleep(60)
        os._exit(0)
signal.signal(signal.SIGUSR1, fork)
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    time.sleep(60)
"""


def test_children_started_during_the_search_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file, child = tmp_path / "pid", tmp_path / "child"
    (tmp_path / "forks.py").write_text(FORKS)
    words = ["sh", "-c", f"/usr/bin/env python3 {tmp_path}/forks.py $0 {child}; true", str(pid_file)]
    runtime = subprocess.Popen(words)
    while not pid_file.exists() or not pid_file.read_text():
        time.sleep(0.01)
    look = execution.children

    def forking(root: Root, pid: int) -> list[int]:
        children = look(root, pid)
        if not child.exists() and pid == int(pid_file.read_text()):
            subprocess.run(["kill", "-USR1", str(pid)], check=True)
            deadline = time.monotonic() + 0.2  # it is stopped already, and does not
            while not child.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return children

    monkeypatch.setattr(execution, "children", forking)
    kill_started(runtime.pid, pid_file)
    runtime.wait(20)
    if child.exists():
        subprocess.run(["kill", "-9", child.read_text()], check=False)
        pytest.fail("it started another one, and nobody knows of that")


NESTED = """\
import os, sys, time
for _ in range(int(sys.argv[2])):
    if os.fork():
        time.sleep(600)
        os._exit(0)
open(sys.argv[1], "w").write("deep")
time.sleep(600)
"""


def test_a_deep_process_tree_is_killed(tmp_path: Path) -> None:
    """The container chooses the depth, and Python's recursion is limited."""
    program = subprocess.Popen([sys.executable, "-S", "-c", NESTED, str(tmp_path / "deep"), "100"], process_group=0)
    while not (tmp_path / "deep").exists():
        assert program.poll() is None
        time.sleep(0.01)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        kill_tree(program.pid)
    finally:
        sys.setrecursionlimit(before)
    assert program.wait(20) == -9
    for pid in numbers(MACHINE):
        if (stat := read_stat(MACHINE, pid)) and stat.group == program.pid:
            wait_over(pid)


def wait_over(pid: int) -> None:
    """Wait until a process that was killed has ended."""
    deadline = time.monotonic() + 20
    while (stat := read_stat(MACHINE, pid)) is not None and stat.state != "Z":
        assert time.monotonic() < deadline, f"{stat} is left"
        time.sleep(0.01)


def test_a_late_child_of_the_runtime_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of runc creates processes that become children of runc."""
    runtime = subprocess.Popen(["sh", "-c", "sleep 61 & sleep 62 & wait"])
    while len(children := execution.children(MACHINE, runtime.pid)) < 2:
        time.sleep(0.01)
    first, late = children
    pids = list[int]()

    def one_by_one(root: Root, pid: int) -> list[int]:
        pids.append(pid)
        return [child for child in look(root, pid) if child != late or first in pids]

    look = execution.children
    monkeypatch.setattr(execution, "children", one_by_one)
    kill_tree(runtime.pid)
    assert runtime.wait(20) == -9
    wait_over(late)


HAND_OVER = """
import os, socket, sys
path = next(word for word in sys.argv if word.startswith("--console-socket=")).partition("=")[2]
master, slave = os.openpty()
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(path)
    socket.send_fds(sock, [b"/dev/pts/x"], [master])
os.write(slave, sys.argv[-1].encode() + b"\\n")
sys.exit(3)
"""


def argv(folder: Path, program: str) -> list[str]:
    file = folder / "runtime.py"
    file.write_text(program)
    return [sys.executable, str(file), "exec", "c1"]


def test_the_terminal_has_the_programs_output(tmp_path: Path) -> None:
    process, terminal = start_with_terminal(argv(tmp_path, HAND_OVER), "c1", tmp_path)
    try:
        written = b""
        while not written.endswith(b"\n"):  # a read from a terminal may return part of the output
            written += os.read(terminal, 100)
        assert written == b"c1\r\n"
        assert not os.get_inheritable(terminal)
        assert process.wait(60) == 3
    finally:
        os.close(terminal)


def test_a_program_that_could_not_start_has_a_terminal_at_its_end(tmp_path: Path) -> None:
    process, terminal = start_with_terminal(argv(tmp_path, "raise SystemExit(126)"), "c1", tmp_path)
    try:
        with pytest.raises(OSError, match="Input/output error"):
            os.read(terminal, 100)
        assert process.wait(20) == 126
    finally:
        os.close(terminal)


def test_a_runtime_without_a_terminal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "TERMINAL_S", 0.2)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CommandTimeout, match="the terminal for exec in c1"):
        start_with_terminal(argv(tmp_path, "import time; time.sleep(60)"), "c1", tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_missing_runtime_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MissingTool):
        start_with_terminal(["/none/crun", "exec", "c1"], "c1", tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before
