"""`nri pod` runs, enters and removes pods on a real containerd."""

from __future__ import annotations

import json
from pathlib import Path

from tests.real.conftest import Runtime
from tests.support.pod_verbs import WEB, Verbs
from tests.support.waiting import wait_for


def test_a_pod_runs_from_its_manifest_to_its_removal(runtime: Runtime, tmp_path: Path) -> None:
    verbs = Verbs(runtime.daemon.cri_socket, runtime.daemon.run_dir.name, tmp_path)
    try:
        result = verbs.run(WEB, "-o", "json")
        assert result.returncode == 0, result.stderr
        pod = json.loads(result.stdout)[0]
        assert [one["state"] for one in pod["containers"]] == ["CONTAINER_EXITED", *["CONTAINER_RUNNING"] * 2]
        wait_for(lambda: verbs("logs", "web/app").stdout == b"hello web\nready\n", "its log")
        output = verbs("exec", "-i", "web/app", "sh", "-c", "cat; id -u >&2; exit 7", stdin=b"x" * 3_000_000)
        assert (output.returncode, len(output.stdout), output.stderr) == (7, 3_000_000, b"1000\n")
        inside = verbs.in_terminal("exec", "-it", "web/app", "sh")
        inside.until(lambda text: "$ " in text)
        inside.type("stty size; exit 4\n")
        assert inside.ended() == 4 and "24 80" in inside.said
        attach_terminal = verbs.in_terminal("attach", "-it", "web/shell")
        attach_terminal.type("echo $((6 * 7))\n")
        attach_terminal.until(lambda text: "42" in text)
        attach_terminal.type("\x10\x11")
        assert attach_terminal.ended() == 0
        results = json.loads(verbs("inspect", "web/app").stdout)["info"]
        assert results["runtimeSpec"]["linux"]["resources"]["memory"]["limit"] == 64 << 20
        assert b"web" in verbs("stats", "web").stdout
        assert len(verbs.cgroups()) == 1
        assert verbs("stop", "web").returncode == 0
        assert verbs("logs", "web/app").stdout.endswith(b"bye\n")
    finally:
        verbs("rm", "-f", "--all", "--grace", "0")
    assert [*(tmp_path / "pods").iterdir()] == [] and verbs.cgroups() == []
