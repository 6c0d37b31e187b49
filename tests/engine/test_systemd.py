"""The engine as a systemd unit from `nri engine unit`; a real systemd creates the cgroups of its containers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.needs import need_root, need_tool
from tests.support.systemd_node import SystemdNode
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX, image_archive

NRI = (sys.executable, "-m", "nri")
UNIT = "nri-engine.service"
#: What takes CAP_SYS_RESOURCE, which not every machine of tests gives.
LESS = "[Unit]\nDefaultDependencies=no\n[Service]\nOOMScoreAdjust=\nLimitNOFILE=\nLimitNPROC=\n"
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  hostNetwork: true
  containers:
  - name: one
    image: {BUSYBOX}
    imagePullPolicy: Never
    command: [sh, -c, "trap exit TERM; while true; do sleep 0.1; done"]
    resources: {{limits: {{memory: 64Mi}}}}
"""


@pytest.mark.timeout(300)
def test_a_pod_keeps_its_scope_over_a_restart_until_it_is_removed(tmp_path: Path) -> None:
    need_root()
    for tool in ("systemd-analyze", "nsenter", "runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    node = SystemdNode(tmp_path)
    for path, text in {"nri/engine.toml": '[cgroups]\ndriver = "systemd"\n', "web.yaml": POD}.items():
        (tmp_path / "etc" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "etc" / path).write_text(text)
    shutil.copy(image_archive(print), tmp_path / "image.tar")

    def run(*words: str) -> str:
        container = node.run(*words)
        assert container.returncode == 0, container.stdout + container.stderr
        return container.stdout

    with node:
        node.unit(UNIT, run(*NRI, "engine", "unit"))
        node.unit(f"{UNIT}.d/less.conf", LESS)
        run("systemctl", "daemon-reload")
        run("systemctl", "start", UNIT)
        run(*NRI, "engine", "load", f"oci-archive:/image.tar:{BUSYBOX}", BUSYBOX)
        run(*NRI, "pod", "run", "-f", "/etc/web.yaml")
        (scope,) = scopes(node)
        assert str(64 << 20) in (node.show(scope, "MemoryLimit"), node.show(scope, "MemoryMax"))
        run("systemctl", "restart", UNIT)
        assert "running" in run(*NRI, "pod", "ps") and scopes(node) == [scope]
        run(*NRI, "pod", "rm", "-f", "web")
        wait_for(lambda: not scopes(node), "the end of the container's scope")


def scopes(node: SystemdNode) -> list[str]:
    """The scopes of the engine's containers that run."""
    words = ("systemctl", "list-units", "--plain", "--no-legend", "--state=running", "nri-*.scope")
    return [line.split()[0] for line in node.run(*words).stdout.splitlines()]
