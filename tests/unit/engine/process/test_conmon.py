"""conmon's command line, and which process is a container's conmon."""

import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.engine.process.conmon import PERSIST, Conmon, conmon_argv, find_conmon
from nri.engine.process.runtime import Runtime
from nri.errors import RequestError
from tests.support.needs import need_root


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


def test_a_number_that_is_no_file_is_nobodys(tmp_path: Path) -> None:
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
def test_a_log_that_is_no_file_is_refused_before_conmon_writes_to_it(
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
        with pytest.raises(RequestError, match=f"is a {kind}, and no file") as caught:
            call()
        assert caught.value.field == "log_path"
    assert not (tmp_path / PERSIST).exists()
