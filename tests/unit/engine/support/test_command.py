"""Programs run without a shell and with a deadline, and leave no process."""

import fcntl
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from nri.engine.support.command import end_leftovers, last_lines, run, start, wait_ended, wait_readable
from nri.engine.support.errors import CommandFailed, CommandTimeout, MissingTool
from tests.support.waiting import wait_for


def stats() -> list[list[str]]:
    """The fields of all processes' stat files; the names of those that matter here have no blanks."""
    rows = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            rows.append(path.read_text().split())
        except OSError:
            pass  # it ended meanwhile
    return rows


def test_long_input_and_output_are_passed() -> None:
    script = "import sys; data = sys.stdin.buffer.read(); sys.stderr.write('e' * 300000); sys.stdout.buffer.write(data)"
    output = run(["python3", "-c", script], timeout_s=20, data=b"x" * 500_000)
    assert (len(output.stdout), len(output.stderr), output.code) == (500_000, 300_000, 0)


def test_a_program_does_not_get_the_engines_systemd_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"):
        monkeypatch.setenv(name, "/run/x")
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example")
    for env in (None, {"TMPDIR": "/x"}):
        actual = dict(line.split("=", 1) for line in run(["env"], timeout_s=20, env=env).stdout.decode().splitlines())
        assert actual["HTTPS_PROXY"] == "proxy.example" and actual.keys() >= (env or {}).keys()
        assert not actual.keys() & {"NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"}


def test_output_over_the_limit_is_dropped_and_counted() -> None:
    output = run(["python3", "-c", "print('x' * 99999)"], timeout_s=20, limit_bytes=1000)
    assert (len(output.stdout), output.dropped_bytes) == (1000, 99_000)


def test_a_failure_has_the_last_lines_of_the_program() -> None:
    with pytest.raises(CommandFailed, match=r"making bread: no flour; no water .exit code 3") as caught:
        run(
            ["sh", "-c", "echo early >&2; echo no flour >&2; echo no water >&2; exit 3"],
            timeout_s=20,
            action="making bread",
        )
    assert caught.value.code == 3
    assert run(["sh", "-c", "exit 3"], timeout_s=20, check=False).code == 3


def test_at_the_deadline_the_program_and_its_children_are_killed(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    for timeout_s in (0.3, 3.0, 15.0):  # a busy machine may not have begun it by then
        with pytest.raises(CommandTimeout, match=f"still running after {timeout_s:g} s"):
            run(["sh", "-c", f"echo $$ > {started}; sleep 300 & sleep 300"], timeout_s=timeout_s)
        if started.exists() and (group := started.read_text().strip()):
            break
    wait_for(lambda: not [row for row in stats() if row[4] == group and row[2] != "Z"], "the end of all")


def test_a_child_that_keeps_the_pipes_open_does_not_block() -> None:
    assert run(["sh", "-c", "sleep 3 & echo done"], timeout_s=20).stdout == b"done\n"


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_program_that_cannot_be_killed_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a frozen program, or one that waits for a lost disk: here the signal does not reach the program."""
    descriptors: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr("nri.engine.support.command.END_S", 0.1)
        patch.setattr(os, "killpg", lambda pid, _: descriptors.append(pid))
        began = time.monotonic()
        with pytest.raises(CommandTimeout):
            run(["sleep", "300"], timeout_s=0.1)
    os.kill(descriptors[0], signal.SIGKILL)
    assert time.monotonic() - began < 200


def test_a_missing_program_is_an_error_with_its_name() -> None:
    with pytest.raises(MissingTool, match="'no-such-tool' is missing"):
        run(["no-such-tool"], timeout_s=1)


def test_an_exception_of_the_tick_function_ends_the_program() -> None:
    def stop(pid: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        run(["sleep", "300"], timeout_s=60, on_tick=stop)


def test_the_last_lines_are_joined_into_one_line() -> None:
    assert last_lines(b"one\n\ntwo\nthree \n\n") == "two; three"
    assert last_lines(b"") == ""


def test_waiting_for_an_exit_has_a_deadline() -> None:
    process = start(["sleep", "0.1"])
    assert wait_ended(process, 20) and process.returncode == 0
    assert wait_ended(process, 0)
    process = start(["sleep", "300"])
    try:
        assert not wait_ended(process, 0.01)
    finally:
        process.kill()
        assert wait_ended(process, 20) and process.returncode == -9


def test_waiting_works_for_descriptors_above_1023() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    low, other = os.pipe()
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        assert high >= 1500 and not wait_readable(high, 0.01)
        os.write(other, b"x")
        assert wait_readable(high, 20) and wait_readable(high, None)
    finally:
        for descriptor in (low, other, high):
            os.close(descriptor)


def test_programs_of_a_killed_engine_are_found_and_ended(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    file = f"{tmp_path}/mine/file"
    Path(file).touch()
    by_file = start(["tail", "-f", file])
    by_variable = start(["sh", "-c", "sleep 300; exit"], env={"OWNER": "me"})
    stranger = start(["sleep", "300"], env={"OWNER": "men"})
    try:
        assert sorted(
            set(end_leftovers(tmp_path / "mine", "OWNER=me")) & {by_file.pid, by_variable.pid, stranger.pid}
        ) == sorted([by_file.pid, by_variable.pid])
        assert (by_file.poll(), by_variable.poll(), stranger.poll()) == (-9, -9, None)
        assert end_leftovers(tmp_path / "mine", "OWNER=me") == []
    finally:
        for entry in (by_file, by_variable, stranger):
            entry.kill()
            entry.wait()
