"""Processes in /proc, and OOM scores that never reach another process with the same pid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.host import Outcome, Process, Root, set_oom_scores
from nri.host.process import (
    cgroups,
    children,
    command_line,
    environment,
    find,
    has_socket,
    io_bytes,
    numbers,
    oom_score,
    parse_cgroups,
    parse_stat,
    read_stat,
    thread_states,
)
from tests.support.host_trees import write_files

STAT = "{} ({}) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n"


def machine(folder: Path, *pids: int, score: str = "0") -> Root:
    files = {}
    for pid in pids:
        files |= {f"proc/{pid}/stat": STAT.format(pid, "sh", 1000 + pid), f"proc/{pid}/oom_score_adj": f"{score}\n"}
    return write_files(folder, files)


@pytest.mark.parametrize("name", ["bash", "a b", ") (x", "tmux: server (1)", ""])
def test_a_name_may_have_blanks_and_parentheses(name: str) -> None:
    parsed = parse_stat(STAT.format(5, name, 77))
    assert parsed == (5, name, "S", 7, 8, 9, 77)


def test_a_truncated_stat_still_has_the_process_group() -> None:
    assert parse_stat("12345 (stress) S 12340 12344 12340 ...") == (12345, "stress", "S", 12340, 12344, 12340, 0)


@pytest.mark.parametrize(
    "text", ["", "(stress) S 1 2 3 4", "12345 (stress) S", "12345 (stress) unknown 1 2 3 4 5 6",
             STAT.format("x", "sh", 1), STAT.format(5, "sh", "x")],
)  # fmt: skip
def test_an_invalid_stat_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"content of /proc/PID/stat|invalid literal"):
        parse_stat(text)


def test_a_process_is_identified_by_pid_and_start_time(tmp_path: Path) -> None:
    root = machine(tmp_path, 5)
    assert find(root, 5) == Process(5, 1005)
    assert find(root, 6) is None
    (tmp_path / "proc/5/stat").write_text("garbage")
    assert find(root, 5) is None


def test_command_lines_and_environments_are_read(tmp_path: Path) -> None:
    root = write_files(tmp_path, {
        "proc/5/cmdline": "sh\0-c\0\0", "proc/5/environ": "A=1\0B=2\0", "proc/6/cmdline": "title without an end",
        "proc/7/cmdline": "", "proc/self/x": "", "proc/7/comm": "", "proc/5/task/5/children": "6 7 ",
        "proc/5/task/8/children": "",
        "proc/5/task/5/stat": STAT.format(5, "sh", 1), "proc/5/task/8/stat": STAT.format(8, "sh", 1),
    })  # fmt: skip
    (tmp_path / "proc/7/comm").write_bytes(b"\xff")
    assert numbers(root) == [5, 6, 7]
    assert [command_line(root, pid) for pid in (5, 6, 7, 8)] == [["sh", "-c", ""], ["title without an end"], [], []]
    assert (environment(root, 5), environment(root, 9)) == (["A=1", "B=2"], None)
    assert (children(root, 5), thread_states(root, 5)) == ([6, 7], ["S", "S"])
    assert (children(root, 9), thread_states(root, 9), read_stat(root, 9)) == ([], [], None)


def test_a_program_name_that_is_not_text_is_read(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/\xff) Z 1"
    shutil.copy(sys.executable, program)
    with subprocess.Popen([program, "-c", "print(flush=True); import time; time.sleep(60)"], stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        actual = read_stat(Root(), process.pid)
        process.kill()
    assert actual is not None and actual.parent == os.getpid()


def test_this_process_is_found_on_this_machine() -> None:
    actual = find(Root(), os.getpid())
    assert actual is not None
    assert parse_stat(Root().read("/proc/self/stat")).group == os.getpgrp()


def test_a_missing_or_invalid_process_is_none(tmp_path: Path) -> None:
    root = machine(tmp_path, 5)
    write_files(tmp_path, {"proc/9/stat": "garbage"})
    assert [read_stat(root, pid) is None for pid in (5, 7, 9)] == [False, True, True]


def test_the_cgroups_of_a_process_are_found(tmp_path: Path) -> None:
    text = "4:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/x\n"
    output = {"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/", "": "/x"}
    assert parse_cgroups(text) == output
    root = write_files(tmp_path, {"proc/5/cgroup": text})
    assert cgroups(root, 5) == output
    assert cgroups(root, 6) is None


def test_the_bytes_that_a_process_moves_are_counted(tmp_path: Path) -> None:
    text = "rchar: 6\nwchar: 5\nsyscr: 10\nsyscw: 0\n"
    root = write_files(tmp_path, {"proc/5/io": text, "proc/6/io": "rchar: 6\nwchar: x\n", "proc/7/io": ""})
    assert [io_bytes(root, pid) for pid in (5, 6, 7, 8)] == [11, None, None, None]


def test_a_score_is_applied_once_and_then_unchanged(tmp_path: Path) -> None:
    root = machine(tmp_path, 5, 6, score="-5")
    results = set_oom_scores(root, [Process(5, 1005), Process(6, 1006), Process(7, 1007)], 500)
    assert [result.outcome for result in results] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.GONE]
    assert (results[0].before, results[0].after, results[0].target) == (-5, 500, "process 5")
    assert oom_score(root, 5) == 500
    assert set_oom_scores(root, [Process(5, 1005)], 500)[0].outcome is Outcome.UNCHANGED


def test_another_process_with_the_same_pid_is_not_changed(tmp_path: Path) -> None:
    root = machine(tmp_path, 5)
    (result,) = set_oom_scores(root, [Process(5, 1)], 500)
    assert (result.outcome, result.reason) == (Outcome.GONE, "another process has its id now")
    assert oom_score(root, 5) == 0


@pytest.mark.parametrize("score", [-1001, 1001])
def test_a_score_out_of_range_is_refused(tmp_path: Path, score: int) -> None:
    (result,) = set_oom_scores(machine(tmp_path, 5), [Process(5, 1005)], score)
    assert (result.outcome, result.reason) == (Outcome.REFUSED, f"{score} is not between -1000 and 1000")


def test_an_unreadable_score_does_not_affect_others(tmp_path: Path) -> None:
    root = machine(tmp_path, 5, 6)
    (tmp_path / "proc/5/oom_score_adj").write_text("x")
    assert oom_score(root, 5) is None
    assert oom_score(root, 7) is None
    outcomes = [result.outcome for result in set_oom_scores(root, [Process(5, 1005), Process(6, 1006)], 1)]
    assert outcomes == [Outcome.UNSUPPORTED, Outcome.APPLIED]
    (tmp_path / "proc/5/oom_score_adj").unlink()
    assert set_oom_scores(root, [Process(5, 1005)], 1)[0].outcome is Outcome.GONE


def test_a_score_that_the_kernel_changes_is_clamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, _: write(descriptor, b"0"))
    (result,) = set_oom_scores(machine(tmp_path, 5), [Process(5, 1005)], 7)
    assert (result.outcome, result.reason, result.after) == (Outcome.CLAMPED, "the value reads back as 0", 0)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_real_process_gets_its_score(sleeper: subprocess.Popen[bytes]) -> None:
    process = find(Root(), sleeper.pid)
    assert process is not None
    (result,) = set_oom_scores(Root(), [process], 777)
    assert result.outcome is Outcome.APPLIED, result
    assert oom_score(Root(), sleeper.pid) == 777
    sleeper.kill()
    sleeper.wait()
    assert set_oom_scores(Root(), [process], 5)[0].outcome is Outcome.GONE


def test_a_process_has_a_socket_if_a_descriptor_refers_to_it(tmp_path: Path) -> None:
    root = machine(tmp_path, 5, 6, 7)
    for pid, target in ((5, "socket:[77]"), (6, "/dev/null")):
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(target)
    assert [has_socket(root, pid) for pid in (5, 6, 7, 8)] == [True, False, False, False]
    assert [has_socket(root, 5, inode) for inode in ("77", "7")] == [True, False]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["stat", "oom_score_adj"])
def test_a_pipe_instead_of_the_score_does_not_block(tmp_path: Path, name: str) -> None:
    root = machine(tmp_path, 5)
    (tmp_path / f"proc/5/{name}").unlink()
    os.mkfifo(tmp_path / f"proc/5/{name}")
    (result,) = set_oom_scores(root, [Process(5, 1005)], 100)
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "not a regular file")
