"""A program: its pipes, its end and its clean-up."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from nri.plugins.v010_adapter.program import Outcome, RunError, find, run
from tests.support.programs import script


def start(program: Path, request: bytes = b"", *, timeout_s: float = 20.0, max_bytes: int = 1 << 20) -> Outcome:
    environment = {"PATH": os.environ["PATH"]}
    return run(str(program), request, timeout_s=timeout_s, max_bytes=max_bytes, environment=environment)


def is_gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return not os.path.exists(f"/proc/{pid}")


def test_a_program_gets_the_argument_invoke_and_the_request(tmp_path: Path) -> None:
    program = script(tmp_path, "p", 'echo "$# $1"; cat; echo words >&2; exit 3')
    assert start(program, b"request") == Outcome(3, b"1 invoke\nrequest", "words")


def test_a_large_request_and_a_large_answer_do_not_deadlock(tmp_path: Path) -> None:
    big = os.urandom(1 << 19).hex().encode()
    assert start(script(tmp_path, "p", "exec cat"), big, max_bytes=2 << 20).output == big


def test_a_program_that_does_not_read_its_request_is_accepted(tmp_path: Path) -> None:
    assert start(script(tmp_path, "p", "exec <&-; echo {}"), b"x" * (1 << 20)).output == b"{}\n"


def test_at_the_deadline_the_program_and_its_children_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = script(tmp_path, "p", f"echo I wait >&2; sleep 600 & echo $! > {pids}; echo $$ >> {pids}; wait")
    with pytest.raises(RunError, match=r"the program did not end within 2 s; its last line: I wait"):
        start(program, timeout_s=2.0)
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_too_much_output_ends_the_program(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(RunError, match="the output has more than 4096 bytes"):
        start(script(tmp_path, "p", "exec yes"), max_bytes=4096)
    assert time.monotonic() - began < 10


def test_a_flood_of_error_output_is_read_and_its_end_kept(tmp_path: Path) -> None:
    ended = start(script(tmp_path, "p", "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo {}"))
    assert ended.output == b"{}\n"
    assert ended.stderr.endswith("xthe end")
    assert len(ended.stderr) < 5000


def test_a_child_that_keeps_the_pipes_open_does_not_block(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    ended = start(script(tmp_path, "p", f"setsid sleep 600 & echo $! > {pid}; echo {{}}"))
    assert (ended.code, ended.output) == (0, b"{}\n")
    assert time.monotonic() - began < 10
    os.kill(int(pid.read_text()), 9)


def test_a_program_has_the_given_environment_and_no_other_descriptors(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "env | grep -v ^PWD= | grep -v ^_= ; ls /proc/self/fd | tr '\\n' ' '; pwd")
    name, descriptors_and_folder = start(program).output.decode().splitlines()
    assert name.startswith("PATH=")
    assert descriptors_and_folder.split() == ["0", "1", "2", "3", "/"]


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r'exec: "is_gone": executable file not found in \$PATH'):
        find("is_gone", str(tmp_path))
    broken = script(tmp_path, "p", "")
    broken.write_text("#!/is_gone/interpreter\n")
    with pytest.raises(RunError, match=r"fork/exec .*/p: No such file or directory"):
        start(broken)
    assert find("p", str(tmp_path)) == str(tmp_path / "p")


def test_a_program_that_cannot_be_watched_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def fail(pid: int) -> int:
        pids.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", fail)
    program = script(tmp_path, "p", "exec sleep 600")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(RunError, match=r"^fork/exec .*/p: Too many open files$"):
        start(program)
    assert set(os.listdir("/proc/self/fd")) <= before
    (pid,) = pids
    assert not os.path.exists(f"/proc/{pid}")
