"""The sockets that the engine wants to listen on, and all rows together."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

from nri.engine.check import examine, lacking
from nri.engine.check.rows import Check
from nri.engine.config import EngineConfig, NetworkConfig, NriConfig, OciRuntime


def rows(config: EngineConfig) -> dict[str, Check]:
    return {row.what: row for row in examine(config)}


def test_sockets_are_free_taken_or_too_long(tmp_path: Path) -> None:
    nri = NriConfig(socket_path=str(tmp_path / ("n" * 120)))
    config = EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock", nri=nri)
    found = rows(config)
    assert found["CRI socket"].state == "ok"
    assert (found["NRI socket"].state, found["NRI socket"].next) == ("missing", "set nri.socket_path to a shorter path")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "cri.sock"))
        listener.listen()
        row = rows(config)["CRI socket"]
    assert (row.state, row.found) == ("limited", f"{tmp_path}/cri.sock: a process listens there")


def test_without_nri_its_socket_is_not_looked_at(tmp_path: Path) -> None:
    config = EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock", nri=NriConfig(disable=True))
    assert "NRI socket" not in rows(config)
    connected = dataclasses.replace(config, nri=NriConfig(disable_connections=True))
    assert "NRI socket" not in rows(connected)


def test_what_is_lacking_at_a_start_is_named_with_its_package_and_nothing_is_run(tmp_path: Path) -> None:
    conmon = tmp_path / "conmon"
    conmon.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    conmon.chmod(0o755)
    images = dataclasses.replace(EngineConfig().images, skopeo="/none/skopeo", umoci="/none/umoci")
    runtimes = {"runc": OciRuntime("/none/runc"), "other": OciRuntime("/none/other")}
    network = NetworkConfig(config_dir=tmp_path / "cni")
    config = EngineConfig(runtimes=runtimes, conmon=str(conmon), images=images, network=network)
    found = {row.what: row.next for row in lacking(config)}
    assert list(found) == ["OCI runtime runc", "skopeo, for images", "umoci, for images", "pod network"]
    assert all(f"apt-get install {name}" in " ".join(found.values()) for name in ("runc", "skopeo", "umoci"))
    assert not (tmp_path / "ran").exists()
    assert lacking(dataclasses.replace(config, dry=True)) == []
