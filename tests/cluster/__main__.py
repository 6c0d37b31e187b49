"""Start and stop a Kubernetes cluster of two user-mode nodes.

    python -m tests.cluster up                 start the cluster; returns when both nodes are Ready
    python -m tests.cluster kubectl WORD...    run kubectl on the cluster
    python -m tests.cluster run N COMMAND      run a shell command in node N as root
    python -m tests.cluster down               end the cluster and remove its state
    python -m tests.cluster test               up, the tests of this folder, down

Exit codes: 0 success; 1 an error, which is printed; 77 a program or the kernel cannot be built here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.machine import (
    RUNTIMES,
    START_TIMEOUT_S,
    Cluster,
    ClusterError,
    default_folder,
    end_on_sigterm,
    serve,
    supervisor,
)
from tests.kubernetes import build
from tests.kubernetes.control_plane import install_etcd
from tools.nodes import kernel
from tools.nodes.machine import ROOT, Node, NodeError
from tools.runtimes import MissingError, install
from tools.runtimes.images import image_archive
from tools.runtimes.machine import ensure_packages, require_root

_DAY_S = 86400.0
_END_TIMEOUT_S = 300.0


def main(words: list[str]) -> int:
    """Return the exit code."""
    folder = default_folder()
    try:
        match words:
            case ["up"]:
                up(folder)
            case ["down"]:
                down(folder)
            case ["test", *arguments]:
                return test(folder, arguments)
            case ["kubectl", *arguments]:
                print(Cluster(folder).kubectl(*arguments), end="")
            case ["run", number, command]:
                print(Cluster(folder).run(int(number), command), end="")
            case ["serve", path]:
                return serve(Path(path))
            case ["node", interface, disk, *command]:
                return _node(interface, Path(disk), command)
            case _:
                print(__doc__)
                return 2
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return kernel.CANNOT
    except (ClusterError, NodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def up(folder: Path) -> None:
    """Start the cluster and wait until each node is Ready. Raises ClusterError if it does not start."""
    if supervisor(folder):
        raise ClusterError("the cluster runs already; end it with `python -m tests.cluster down`")
    require_root()
    _prepare()
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-m", "tests.cluster", "serve", str(folder)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(folder, process, start)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _prepare() -> None:
    """Get all programs, from the cache or built."""
    kernel.install(_say)
    for command in build.COMMANDS:
        build.install(command, _say)
    install_etcd(_say)
    install("2.4", _say)
    image_archive(_say)
    ensure_packages(_say, ("runc", "containernetworking-plugins", "conmon", "ethtool", "e2fsprogs"))


def _wait(folder: Path, process: subprocess.Popen[bytes], start: float) -> None:
    reported: list[str] = []
    while len(reported) < len(RUNTIMES):
        failed = [path.parent for path in folder.glob("n*/failed")]
        if process.poll() is not None or failed:
            logs = [*(path / "setup.log" for path in failed), *folder.glob("n*/log"), folder / "log"]
            raise ClusterError("\n".join(["the cluster did not start:", *(_last_lines(log) for log in logs)]))
        if time.monotonic() - start > START_TIMEOUT_S:
            raise ClusterError(f"nodes Ready within {START_TIMEOUT_S:g} s: {reported}; see the logs in {folder}")
        if (folder / "api/kubeconfig").exists() and supervisor(folder):
            for name in Cluster(folder).ready_nodes():
                if name not in reported:
                    reported.append(name)
                    _say(f"{name} ({RUNTIMES[int(name[1:]) - 1]}) is Ready after {time.monotonic() - start:.0f} s")
        time.sleep(2)  # starting kubectl takes half a second of processor time


def _last_lines(path: Path) -> str:
    """The end of a log; empty if `down` has removed it."""
    with suppress(FileNotFoundError):
        return "\n".join([f"{path}:", *path.read_text(errors="replace").splitlines()[-8:]])
    return ""


def down(folder: Path) -> None:
    """End the cluster and remove its state. Raises ClusterError if its supervisor does not end."""
    pid, deadline = supervisor(folder), time.monotonic() + _END_TIMEOUT_S
    if pid:
        os.kill(pid, signal.SIGTERM)
    while supervisor(folder):
        if time.monotonic() > deadline:
            raise ClusterError(f"process {pid} did not end within {_END_TIMEOUT_S:g} s")
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def test(folder: Path, arguments: list[str]) -> int:
    """Run the tests of this folder on a new cluster; returns pytest's exit code."""
    up(folder)
    try:
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "tests/cluster", *arguments]
        return subprocess.run(words, cwd=ROOT, check=False).returncode
    finally:
        down(folder)


def _node(interface: str, disk: Path, command: list[str]) -> int:
    """Run a node until it ends or SIGTERM arrives."""
    end_on_sigterm()
    with suppress(KeyboardInterrupt):
        return Node(_DAY_S, systemd=True, memory_mib=3072, cpus=4, interface=interface, disk=disk).run(command, {})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
