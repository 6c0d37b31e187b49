"""The examples, run by hand, against real containerds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.real.conftest import Runtime

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pod_name_sets_the_pods_name_in_a_container(runtime: Runtime) -> None:
    daemon = runtime.daemon
    command = [sys.executable, str(EXAMPLES / "pod_name.py"), "--idx", "60", "--socket-path", str(daemon.nri_socket)]
    plugin = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        daemon.wait_connected("60-pod-name")
        pod = daemon.cri.run_pod("named")
        assert "POD_NAME=named" in daemon.cri.exec(daemon.cri.run(pod, "main"), "/bin/env").splitlines()
        daemon.cri.remove_pod(pod.id)
    finally:
        plugin.terminate()
        _, errors = plugin.communicate(timeout=15)
    assert plugin.returncode == 0, errors


def test_pod_name_has_at_most_ten_lines() -> None:
    lines = (EXAMPLES / "pod_name.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 10
