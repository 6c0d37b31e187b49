"""`nri ps`, `nri pods` and `nri logs` ask a real containerd, as they ask any runtime."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.real.conftest import Runtime


def nri(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nri.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_pods_containers_and_logs_of_a_containerd(runtime: Runtime) -> None:
    cri, path = runtime.daemon.cri, runtime.daemon.cri_socket
    pod = cri.run_pod("verbs")
    try:
        container = cri.run(pod, "talker", ["/bin/sh", "-c", "echo said; echo bad >&2; sleep 1000"])
        assert nri("pods", "-q", "--cri-socket", path).stdout.split() == [pod.id]
        assert nri("ps", "-q", "--pod", "verbs", "--cri-socket", path).stdout.split() == [container]
        until = time.monotonic() + 20
        done = nri("logs", "verbs/talker", "--cri-socket", path)
        while not (done.stdout and done.stderr) and time.monotonic() < until:
            done = nri("logs", "verbs/talker", "--cri-socket", path)
        assert (done.stdout, done.stderr) == ("said\n", "bad\n")
    finally:
        cri.remove_pod(pod.id)
