"""The configuration of a private containerd, as text.

Every path lies in the run directory. The two formats (version 2 for 1.7, version 3 for 2.x) differ only in the places
of the CRI's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any
from zlib import crc32

from tools.runtimes.images import PAUSE

Table = dict[str, Any]
CNI_PLUGINS = "/usr/lib/cni"
#: Where the pods' networks begin; they end before 10.192.0.0.
_FIRST_POD = int(IPv4Address("10.128.0.0"))


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """What a run may choose. Timeouts in seconds.

    `nri` adds or overrides keys of NRI's own table, `cri` those of the CRI's runtime; `blockio` is a file of classes,
    `oci` has further OCI runtimes: name -> program.
    """

    request_timeout_s: float = 2.0
    registration_timeout_s: float = 5.0
    log_level: str = "debug"
    nri: Table = field(default_factory=dict)
    cri: Table = field(default_factory=dict)
    blockio: str = ""
    oci: Mapping[str, str] = field(default_factory=dict)


def containerd_config(version: int, run_dir: Path, runc: str, snapshotter: str, settings: DaemonSettings) -> str:
    """The text of config.toml for that configuration format version."""
    top: Table = {
        "version": version,
        "root": f"{run_dir}/root",
        "state": f"{run_dir}/state",
        "grpc": {"address": f"{run_dir}/cri.sock"},
        "ttrpc": {"address": f"{run_dir}/ttrpc.sock"},
        "plugins": {
            **_cri_tables(version, run_dir, runc, snapshotter, settings),
            "io.containerd.service.v1.tasks-service": {"blockio_config_file": settings.blockio},
            "io.containerd.internal.v1.opt": {"path": f"{run_dir}/opt"},
            "io.containerd.nri.v1.nri": _nri_table(run_dir, settings),
        },
    }
    return "\n".join(_toml(top, ())) + "\n"


def _nri_table(run_dir: Path, settings: DaemonSettings) -> Table:
    return {
        "disable": False,
        "disable_connections": False,
        "socket_path": f"{run_dir}/nri.sock",
        "plugin_path": f"{run_dir}/plugins",
        "plugin_config_path": f"{run_dir}/conf.d",
        "plugin_registration_timeout": f"{int(settings.registration_timeout_s * 1000)}ms",
        "plugin_request_timeout": f"{int(settings.request_timeout_s * 1000)}ms",
        **settings.nri,
    }


def _cri_tables(version: int, run_dir: Path, runc: str, snapshotter: str, settings: DaemonSettings) -> Table:
    """The CRI plugin's tables: one in format 2, three in format 3."""
    streaming = {
        "disable_tcp_service": True,
        "stream_server_address": "127.0.0.1",
        "stream_server_port": "0",
    }
    runtimes = {
        name: {
            "runtime_type": "io.containerd.runc.v2",
            "options": {"BinaryName": program, "Root": f"{run_dir}/{name}"},
        }
        for name, program in {"runc": runc, **settings.oci}.items()
    }
    runtime: Table = {
        # Without CAP_SYS_RESOURCE no process may lower its OOM score, and pods would not start.
        "restrict_oom_score_adj": True,
        # So that a pod's network namespace is found and unmounted with the run directory.
        "netns_mounts_under_state_dir": True,
        "enable_cdi": True,
        "cdi_spec_dirs": [f"{run_dir}/cdi"],
        "containerd": {"default_runtime_name": "runc", "runtimes": runtimes},
        **settings.cri,
    }
    if version == 2:
        runtime["cni"] = {"bin_dir": CNI_PLUGINS, "conf_dir": f"{run_dir}/cni"}
        runtime["containerd"]["snapshotter"] = snapshotter
        return {"io.containerd.grpc.v1.cri": {"sandbox_image": PAUSE, **streaming, **runtime}}
    runtime["cni"] = {"bin_dirs": [CNI_PLUGINS], "conf_dir": f"{run_dir}/cni"}
    images = {"snapshotter": snapshotter, "pinned_images": {"sandbox": PAUSE}}
    return {
        # Nothing here outlives a crash of the machine, so it need not reach the disk.
        "io.containerd.metadata.v1.bolt": {"no_sync": True},
        "io.containerd.grpc.v1.cri": streaming,
        "io.containerd.cri.v1.runtime": runtime,
        "io.containerd.cri.v1.images": images,
    }


def pod_network(run_dir: Path) -> IPv4Network:
    """The network of a run's pods: one of 4096 with 1022 addresses each, computed from its name.

    Each run on a machine has its own bridge, but all share one routing table. With the same addresses on two bridges
    the first one would get the traffic for both.
    """
    return IPv4Network((_FIRST_POD + crc32(run_dir.name.encode()) % 4096 * 1024, 22))


def pod_gateway(run_dir: Path) -> str:
    """The host's address on the bridge of a run's pods."""
    return str(pod_network(run_dir)[1])


def cni_config(run_dir: Path) -> str:
    """A bridge network without iptables: pods have an address on `pod_network`, the host has `pod_gateway`."""
    plugins = (
        f'{{"type": "bridge", "bridge": "{run_dir.name}", "isGateway": true, "ipMasq": false, '
        f'"ipam": {{"type": "host-local", "dataDir": "{run_dir}/ipam", '
        f'"ranges": [[{{"subnet": "{pod_network(run_dir)}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}}'
    )
    return f'{{"cniVersion": "1.0.0", "name": "{run_dir.name}", "plugins": [{plugins}]}}\n'


def _toml(table: Table, path: tuple[str, ...]) -> list[str]:
    """A table as TOML: its plain keys first, then its sub-tables."""
    plain = [f"{key} = {_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    lines = [f"[{'.'.join(_value(name) for name in path)}]", *plain] if path and plain else plain
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _toml(value, (*path, key))
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    return str(value) if isinstance(value, int) else f'"{value}"'
