"""conmon's command line, and the search for a container's conmon."""

import itertools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.engine.process.conmon import PERSIST, Conmon, conmon_argv, find_conmon, parse_sync
from nri.engine.process.runtime import Runtime
from nri.errors import RequestError
from tests.support.needs import need_root
from tests.support.waiting import wait_for


def test_the_command_line_has_all_files_in_the_bundle_and_the_runtimes_options(tmp_path: Path) -> None:
    runtime = Runtime("/usr/bin/crun", tmp_path / "root", arguments=["--cgroup-manager=disabled"])
    argv = conmon_argv("/usr/bin/conmon", runtime, "c1", Path("/b"), log_path=Path("/l/0.log"), flags=["-i"])
    pairs = dict(itertools.pairwise(argv))
    assert argv[:3] == ["/usr/bin/conmon", "--api-version", "1"]
    assert (pairs["-c"], pairs["-r"], pairs["-b"], pairs["-l"]) == ("c1", "/usr/bin/crun", "/b", "k8s-file:/l/0.log")
    assert (pairs["-p"], pairs["-P"], pairs["--exit-dir"]) == ("/b/pid", "/b/conmon.pid", "/b/persist")
    assert "-i" in argv and "--full-attach" in argv
    options = [value for word, value in itertools.pairwise(argv) if word == "--runtime-arg"]
    assert options == [
        "--cgroup-manager=disabled", f"--root={tmp_path}/root", "--log=/b/runtime.log", "--log-format=json",
    ]  # fmt: skip


def test_a_process_that_does_not_name_the_container_is_not_its_conmon(tmp_path: Path) -> None:
    assert find_conmon(tmp_path, "c1") == 0
    (tmp_path / "conmon.pid").write_text(str(os.getpid()))
    assert find_conmon(tmp_path, "c1") == 0
    (tmp_path / "conmon.pid").write_text("")
    assert find_conmon(tmp_path, "c1") == 0


def test_a_pipe_instead_of_the_pid_file_means_no_conmon(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "conmon.pid")
    assert find_conmon(tmp_path, "c1") == 0


@pytest.mark.parametrize("suffix", ["", ".tmp"])
@pytest.mark.parametrize(
    ("kind", "put"),
    [
        ("link", lambda path: path.symlink_to("/etc/passwd")),
        ("link", lambda path: path.symlink_to("/absent/file")),
        ("pipe", os.mkfifo),
        ("folder", Path.mkdir),
        ("device", lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))),
    ],
)
def test_a_log_that_is_not_a_file_is_refused_before_conmon_starts(
    tmp_path: Path, kind: str, put: Callable[[Path], None], suffix: str
) -> None:
    conmon = Conmon("/none")
    if kind == "device":
        need_root()
    put(tmp_path / f"0.log{suffix}")
    for call in (
        lambda: conmon.reopen_log(tmp_path, tmp_path / "0.log"),
        lambda: conmon.create(Runtime("/none", tmp_path / "root"), "c1", tmp_path, log_path=tmp_path / "0.log"),
    ):
        with pytest.raises(RequestError, match=f"is a {kind}, not a file") as caught:
            call()
        assert caught.value.field == "log_path"
    assert not (tmp_path / PERSIST).exists()


#: A conmon that opens its log, reports a PID and keeps running, as the real one does.
CONMON = """#!{python}
import os, signal, sys
(log,) = [word.partition(":")[2] for word in sys.argv if word.startswith("k8s-file:")]
os.read(int(os.environ["_OCI_STARTPIPE"]), 1)
os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
if pid := os.fork():
    open("{bundle}/conmon.pid", "w").write(str(pid))
    os.write(int(os.environ["_OCI_SYNCPIPE"]), b'{"data": 7}\\n')
else:
    os.setsid()
    signal.alarm(60)
    signal.pause()
"""


@pytest.mark.parametrize("moment", ["never", "until it is open", "and it stays"])
def test_a_log_that_is_replaced_during_opening_is_refused(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary, log, victim = tmp_path / "conmon", tmp_path / "0.log", tmp_path / "victim"
    binary.write_text(CONMON.replace("{python}", sys.executable).replace("{bundle}", str(tmp_path)))
    (tmp_path / "runtime").write_text("#!/bin/sh\n")
    for program in (binary, tmp_path / "runtime"):
        program.chmod(0o755)
    runtime = Runtime(str(tmp_path / "runtime"), tmp_path / "root")

    def put_link(_: int) -> None:
        if moment != "never":
            log.symlink_to(victim)

    def parse(line: bytes) -> tuple[int, str]:
        if moment == "until it is open":
            log.unlink()
            log.touch()
        return parse_sync(line)

    monkeypatch.setattr("nri.engine.process.conmon.parse_sync", parse)
    conmon = Conmon(str(binary))
    if moment == "never":
        assert conmon.create(runtime, "c1", tmp_path, log_path=log, move_to_cgroup=put_link).pid == 7
        os.kill(find_conmon(tmp_path, "c1"), signal.SIGKILL)
    else:
        with pytest.raises(RequestError, match="was replaced while it was opened") as caught:
            conmon.create(runtime, "c1", tmp_path, log_path=log, move_to_cgroup=put_link)
        assert caught.value.field == "log_path"
    wait_for(lambda: not find_conmon(tmp_path, "c1"), "the end of conmon")


def test_a_conmon_that_has_exited_shows_nothing_about_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conmon exits when its container is killed before the start; the zombie has no open files."""
    binary, log = tmp_path / "conmon", tmp_path / "0.log"
    binary.write_text(CONMON.replace("{python}", sys.executable).replace("{bundle}", str(tmp_path)))
    (tmp_path / "runtime").write_text("#!/bin/sh\n")
    for program in (binary, tmp_path / "runtime"):
        program.chmod(0o755)
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

        def parse(line: bytes) -> tuple[int, str]:
            wait_for(lambda: find_conmon(tmp_path, "c1"), "conmon's process")
            os.kill(find_conmon(tmp_path, "c1"), signal.SIGKILL)
            (tmp_path / "conmon.pid").write_text(str(ended.pid))
            return parse_sync(line)

        monkeypatch.setattr("nri.engine.process.conmon.parse_sync", parse)
        created = Conmon(str(binary)).create(
            Runtime(str(tmp_path / "runtime"), tmp_path / "root"), "c1", tmp_path, log_path=log
        )
        assert (created.pid, created.conmon_pid) == (7, ended.pid)


#: A conmon that reopens its log through links, as the real one does, while an attacker puts links in its way.
REOPENING = """
import os, sys
ctl, log, places = sys.argv[1], sys.argv[2], sys.argv[3:]
opened = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
print(flush=True)
with open(ctl) as words:
    for word in words:
        assert word == "2 0 0\\n"
        place = places.pop(0) if places else ""
        if place in ("link", "link, then a file"):
            os.symlink(f"{log}.victim", f"{log}.tmp")
        os.close(opened)
        opened = os.open(f"{log}.tmp", os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o640)
        if place == "link, then a file":
            os.unlink(f"{log}.tmp")
            os.close(os.open(f"{log}.tmp", os.O_CREAT))
        os.rename(f"{log}.tmp", log)
"""


@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize(
    ("places", "told_"),
    [
        ([], ""),
        (["link"], "is a link, not a file"),
        (["link, then a file"], "was replaced while it was opened"),
        (["link", "link"], "is a link, not a file"),
    ],
)
def test_a_reopened_log_is_a_new_file(tmp_path: Path, places: list[str], told_: str, renamed: bool) -> None:
    log = tmp_path / "0.log"
    os.mkfifo(tmp_path / "ctl")
    ctl = os.open(tmp_path / "ctl", os.O_RDWR)  # as conmon has it, so that it does not end with its first writer
    words = [sys.executable, "-c", REOPENING, str(tmp_path / "ctl"), str(log), *places]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as conmon:
        try:
            assert conmon.stdout is not None and conmon.stdout.readline()
            (tmp_path / "conmon.pid").write_text(str(conmon.pid))
            if renamed:
                log.rename(tmp_path / "old")
            if told_:
                with pytest.raises(RequestError, match=told_) as caught:
                    Conmon("/none", timeout_s=20).reopen_log(tmp_path, log)
                assert caught.value.field == "log_path"
            else:
                Conmon("/none", timeout_s=20).reopen_log(tmp_path, log)
            if len(places) < 2:
                opened = [os.stat(entry) for entry in Path(f"/proc/{conmon.pid}/fd").iterdir()]
                assert any(os.path.samestat(log.lstat(), entry) for entry in opened)
        finally:
            os.close(ctl)
            conmon.kill()
