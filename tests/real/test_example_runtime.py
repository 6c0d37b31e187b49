"""The example runtime of the documentation runs containers with runc, adjusted and updated by a real plugin."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.real.bundles import rootfs
from tests.support.needs import need_root, need_tool

ROOT = Path(__file__).parents[2]
PLUGIN = """\
import sys
import nri

class Shape(nri.Plugin):
    def synchronize(self, pods, containers):
        print("it takes the state in", file=sys.stderr, flush=True)

    def create_container(self, pod, container):
        if "refuse" in container.args:
            raise nri.Reject("not here")
        return nri.Adjustment().add_env("POD_NAME", pod.name).set_pids_limit(33).add_mount(
            "/data", "tmpfs", "tmpfs", ["size=1m"]
        )

Shape.main()
"""


def test_a_plugin_adjusts_and_updates_containers_of_runc(tmp_path: Path) -> None:
    need_root()
    need_tool("runc")
    socket = tmp_path / "nri.sock"
    (tmp_path / "shape.py").write_text(PLUGIN)
    command = [sys.executable, "-u", str(ROOT / "examples/runtime.py"), str(socket), str(rootfs(tmp_path / "rootfs"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as example:
        assert example.stdin is not None and example.stdout is not None
        while not socket.exists():
            assert example.poll() is None
            time.sleep(0.01)
        plugin = subprocess.Popen(
            [sys.executable, str(tmp_path / "shape.py"), "--idx", "10", "--socket-path", str(socket)],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert plugin.stderr is not None
            for line in plugin.stderr:
                if "it takes the state in" in line:
                    break  # events that come from now on wait for it
            example.stdin.write('sh -c "echo pod $POD_NAME; busybox grep /data /proc/mounts"\nrefuse\nnone\n')
            example.stdin.close()
            printed = example.stdout.read()
        finally:
            plugin.terminate()
            plugin.communicate(timeout=15)
        assert example.wait(20) == 0
    ran, refused, failed, *_ = printed.split("\n\n")
    assert "pod web\n" in ran, printed
    assert "tmpfs /data tmpfs rw,relatime,size=1024k" in ran
    assert '+ process.env[POD_NAME]: "POD_NAME=web"' in ran
    assert (
        '+ mounts[/data]: {"destination": "/data", "options": ["size=1m"], "source": "tmpfs", "type": "tmpfs"}' in ran
    )
    assert '+ linux.resources: {"pids": {"limit": 33}}' in ran
    assert refused == "refused: plugin 10-shape refused: not here"
    assert 'exec: "none": executable file not found in $PATH' in failed
    cgroups = Path("/sys/fs/cgroup")
    remaining = [*cgroups.glob("nri-example-*"), *cgroups.glob("*/nri-example-*")]  # version 2, version 1
    assert not remaining, "a cgroup is left"
