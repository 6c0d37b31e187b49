"""`make demo` shows the change and cleans up in every case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.real.conftest import HERE
from tests.support.needs import need, need_root, need_tool
from tools.runtimes import MissingError, install
from tools.runtimes.leftovers import PLACES, PREFIX, alone, cgroup_dirs, remove
from tools.runtimes.machine import ensure_packages

ROOT = HERE.parents[1]
NRI = Path(sys.executable).with_name("nri")
COMMAND = [sys.executable, str(ROOT / "tools/demo/demo.py")]


@pytest.fixture(autouse=True, scope="module")
def ready() -> None:
    """The demo's parts are on this machine."""
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)


@pytest.fixture
def containerd() -> None:
    """A containerd is in the cache."""
    try:
        ensure_packages(print, ["runc"])
        install("1.7", print)
    except MissingError as error:
        need(False, str(error))


def run_dirs() -> set[Path]:
    """Run directories on this machine."""
    return {path for place in PLACES for path in Path(place).glob(f"{PREFIX}*")}


def leftovers() -> set[Path]:
    """Run directories on this machine that nobody uses any more: other tests may run at the same time."""
    with alone():  # so that nobody creates one at this moment
        results = {path: mark_of(path) for path in run_dirs()}
        locked = {line.split()[5] for line in Path("/proc/locks").read_text().splitlines() if "->" not in line}
        # One that has gone since was let go of by its owner, who takes its files away before.
        return {path for path, mark in results.items() if mark and mark not in locked and mark_of(path) == mark}


def mark_of(run_dir: Path) -> str:
    """The mark of a run directory as /proc/locks has it; "" if it is gone."""
    try:
        return lock_of((run_dir / "owner").stat())
    except OSError:
        return ""


def lock_of(file: os.stat_result) -> str:
    """A file as /proc/locks has it: run directories are separate file systems, so the inode number is not enough."""
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def run_dirs_of(process: subprocess.Popen[str]) -> set[Path]:
    """The run directories that a process uses."""
    open_sockets = set()
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed since
            open_sockets.add(os.path.realpath(link))
    return {path for path in run_dirs() if str(path / "owner") in open_sockets}


def table_of(output: str) -> dict[str, list[str]]:
    """The rows of the demo's table by their first cell."""
    rows = [[cell.strip() for cell in line.split("│")] for line in output.splitlines() if line.count("│") == 2]
    return {row[0]: row[1:] for row in rows}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_demo_compares_a_container_without_and_with_plugins_and_shows_who_changed_what() -> None:
    before = leftovers()
    result = run()
    assert result.returncode == 0, result.stderr
    table = table_of(result.stdout)
    assert table["env POD_NAME"] == ["(not set)", "hello"]
    assert table["memory limit, read inside"] == ["64 MiB", "48 MiB"]
    assert table["memory limit, its cgroup"] == ["64 MiB", "48 MiB"]
    assert table["open files, at most"][1] == "256"
    assert table["size of /scratch"] == ["(not set)", "16 MiB"]
    who = result.stdout.partition("Who changed what")[2].partition("Changes in the OCI runtime's input")
    assert [line.split()[2:5] for line in who[0].splitlines() if "CreateContainer" in line] == [
        ["10-demo", "Env", "POD_NAME"],
        ["10-demo", "MemLimit", "-"],
        ["20-scratch", "Mounts", "/scratch"],
        ["20-scratch", "Rlimits", "RLIMIT_NOFILE"],
    ]
    message = who[2].partition("cleaned up")[0]
    assert '+ process.env[POD_NAME]: "POD_NAME=hello"' in message
    assert "~ linux.resources.memory.limit: 67108864 -> 50331648" in message
    assert not [line for line in message.splitlines() if line.strip()[:1] in "+-~" and "cgroupsPath" in line]
    assert leftovers() <= before


def test_the_demo_shows_the_first_plugin_in_a_real_containerd(containerd) -> None:
    before = leftovers()
    result = run("--containerd", "1.7")
    assert result.returncode == 0, result.stderr
    table = table_of(result.stdout)
    assert table["env POD_NAME"] == ["(not set)", "hello"]
    assert table["memory limit, read inside"] == ["64 MiB", "48 MiB"]
    assert leftovers() <= before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_cleans_up(number: signal.Signals, code: int) -> None:
    before = run_dirs()  # it looks into each at its start
    demo = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        new: set[Path] = set()
        for _ in range(600):
            new = run_dirs_of(demo) - before
            if any((path / "cri.sock").exists() for path in new):
                break
            time.sleep(0.05)
        assert new, "the demo did not start an engine"
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.wait()
    assert (demo.returncode, errors.count("\n")) == (code, 1), errors
    assert not leftovers() & new
    assert not any(cgroup_dirs(path.name) for path in new)


AS_ANOTHER_USER = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); os.geteuid = lambda: 1000; sys.argv = ['demo', *sys.argv[2:]];"
    "from tools.demo.demo import main; sys.exit(main())"
)


def run_as_another_user(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AS_ANOTHER_USER, str(ROOT), *arguments]
    saved = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**saved, **environment}
    )


def test_without_root_the_demo_is_a_reported_dry_run() -> None:
    before = leftovers()
    result = run_as_another_user()
    assert result.returncode == 0, result.stderr
    assert "A dry run: containers need root." in result.stdout
    table = table_of(result.stdout)
    assert table["env POD_NAME"] == ["(not set)", "hello"]
    assert table["memory limit"] == ["64 MiB", "48 MiB"]
    assert table["open files, at most"] == ["(not set)", "256"]
    assert "20-scratch" in result.stdout
    assert leftovers() <= before


AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-u", "CI", "HOME=/tmp"]
#: /var/lib/cni as it is where CNI has run as root.
CNI_OF_ROOT = (
    'mount -t tmpfs t /var/lib/cni && mkdir -m 700 /var/lib/cni/results && chmod "$0" /var/lib/cni && exec "$@"'
)


@pytest.mark.parametrize("mode", ["700", "755"])
def test_an_unprivileged_user_sees_the_dry_demo_although_cni_has_run_as_root(mode: str) -> None:
    need(not subprocess.run([*AS_NOBODY, "test", "-r", COMMAND[1]], check=False).returncode, "a checkout for all users")
    Path("/var/lib/cni").mkdir(exist_ok=True)
    argv = ["unshare", "-m", "sh", "-c", CNI_OF_ROOT, mode, *AS_NOBODY, *COMMAND]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "A dry run: containers need root." in result.stdout


def test_in_ci_a_dry_demo_is_an_error() -> None:
    result = run_as_another_user(CI="true")
    assert result.returncode == 1
    assert result.stderr == (
        "error: the demo cannot run here: it needs a real container, because CI is set: containers need root\n"
    )


def test_a_containerd_demo_cannot_be_a_dry_run() -> None:
    result = run_as_another_user("--containerd", "1.7")
    assert result.returncode == 1
    assert result.stderr == (
        "error: the demo cannot run here: it needs root: containers need it; run the command again with sudo\n"
    )


def test_the_demo_with_keep_leaves_a_working_engine() -> None:
    before = leftovers()
    result = run("--keep")
    (run_dir,) = leftovers() - before
    try:
        assert result.returncode == 0, result.stderr
        assert str(run_dir) in result.stdout
        look = [sys.executable, "-m", "tools.runtimes", "look", str(run_dir)]
        output = subprocess.run(look, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "hello" in output, "the plugin is at work still"
        words = dict(line.strip().split("  ", 1) for line in result.stdout.splitlines() if f"{NRI} " in line)
        message = {what: shown(command.strip().removeprefix(str(NRI)).split()) for what, command in words.items()}
    finally:
        remove(run_dir)
    assert not run_dir.exists()
    assert [line.split()[::2][:2] for line in message["pods"].splitlines()[1:]] == [["default/hello", "main"]]
    assert "POD_NAME=hello" in message["its log"]
    assert "10-demo" in message["who changed it"]


def shown(arguments: list[str]) -> str:
    """What a command prints that the demo names."""
    argv = [str(NRI), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout


def test_a_closed_output_pipe_causes_no_traceback_and_the_demo_cleans_up() -> None:
    before = leftovers()
    demo = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert demo.stdout is not None and demo.stderr is not None
    assert demo.stdout.readline() == "\n"
    demo.stdout.close()
    with demo.stderr:
        assert demo.stderr.read() == ""
    assert demo.wait(120) == 0
    assert leftovers() <= before
