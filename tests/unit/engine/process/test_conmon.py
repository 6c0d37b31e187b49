"""conmon's command line, and which process is a container's conmon."""

import itertools
import os
from pathlib import Path

from nri.engine.process.conmon import conmon_argv, find_conmon
from nri.engine.process.runtime import Runtime


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
