"""`nri why` of containers that the OCI runtime refuses: its message and the changes of plugins."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import nri
from nri.errors import NriError
from tests.engine.node import FOREVER, Node, Recorder


def test_why_shows_the_oci_runtimes_message_and_the_changes_of_plugins(node: Node) -> None:
    admin = str(node.folder / "admin.sock")
    node.start(replace(node.config, nri=replace(node.config.nri, admin_socket=admin)))
    plugin: Recorder = node.plugin()
    pod = node.pod()
    changed = nri.Adjustment().add_env("A", "b")
    for name, command, adjustment, words in (
        ("mount", FOREVER, changed.add_mount("/data", "/nonesuch", "bind", ["rbind"]), "stat /nonesuch: no such file"),
        ("command", ("/nonesuch",), nri.Adjustment().add_env("A", "b"), 'exec: "/nonesuch"'),
    ):
        plugin.on["create"] = lambda *_, adjustment=adjustment: (adjustment, [])
        container_id = node.create(pod, name, command)
        with pytest.raises(NriError, match="runc create failed"):
            node.engine.container_start.start(container_id)
        command_ = [sys.executable, "-m", "nri", "why", name, "--admin-socket", admin]
        stdout = subprocess.run(command_, capture_output=True, text=True, check=True).stdout
        assert "the runtime failed after the plugins' answers: runc create" in stdout and words in stdout
        rows = [line.split() for line in stdout.splitlines() if "10-recorder" in line]
        assert ["Env", "A"] in [row[3:5] for row in rows]
        assert all("not applied: the container was not created" in " ".join(row) for row in rows)
