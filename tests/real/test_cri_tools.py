"""`nri pod` for people without crictl, on a real containerd."""

from __future__ import annotations

from pathlib import Path

from tests.real.conftest import Runtime
from tests.support.pod_tools import check_tools
from tests.support.pod_verbs import Verbs


def test_kubectl_and_crictl_commands_work_on_containerd(runtime: Runtime, tmp_path: Path) -> None:
    verbs = Verbs(runtime.daemon.cri_socket, runtime.daemon.run_dir.name, tmp_path)
    try:
        check_tools(verbs, tmp_path, half_close=False)
    finally:
        verbs("rm", "-f", "--all", "--grace", "0")
