"""The NRI settings of Docker Engine: `nri-opts` in /etc/docker/daemon.json.

As dockerd of Docker Engine 29 reads them: a strict JSON file, whose top-level keys must be spelt as shipped; the keys
of `nri-opts` count in any case. dockerd does not start with an unknown key, a wrong type, or `--nri-opts` next to
`nri-opts`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from nri.config.complaint import suggest
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.docker_flags import conflicts
from nri.config.runtimes.docker_values import check_values
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark
from nri.config.runtimes.runtime import ManagedFile, Runtime
from nri.config.syntax import parse_json

if TYPE_CHECKING:
    from nri.config.key_path import Path
    from nri.config.runtimes.file_tree import FileTree
    from nri.config.source import Source

NAME = "docker"
PATH = "/etc/docker/daemon.json"
TABLE: KeyPath = ("nri-opts",)
#: The path that config-manager writes: without one, plugins cannot connect. The usual path belongs to containerd.
SOCKET = "/var/run/docker/nri.sock"

SETTINGS = (
    Setting("enabled", "enable", config_file.switch),
    Setting("plugin_path", "plugin-path", config_file.text),
    Setting("plugin_config_path", "plugin-config-path", config_file.text),
    Setting("socket_path", "socket-path", config_file.text),
)
KEYS = {setting.key for setting in SETTINGS}
#: Keys that are meant for NRI.
_NRI = re.compile(r"(?i)(?<![a-z])nri(?![a-z])")
#: Tables whose keys dockerd does not look up among its options.
_TABLES = frozenset({
    "builder", "cluster-store-opts", "default-network-opts", "default-ulimits", "features", "log-opts", "nri-opts",
    "runtimes",
})  # fmt: skip
#: The keys that dockerd 29 accepts, by trial of each with `dockerd --validate`.
_TOP_LEVEL_KEYS = _TABLES | frozenset(
    """
    add-runtime allow-direct-routing allow-nondistributable-artifacts authorization-plugin authorization-plugins bip
    bip6 bridge bridge-accept-fwmark cdi-spec-dir cdi-spec-dirs cgroup-parent config-file containerd
    containerd-namespace containerd-plugins-namespace cpu-rt-period cpu-rt-runtime cri-containerd data-root debug
    default-address-pool default-address-pools default-cgroupns-mode default-gateway default-gateway-v6
    default-ipc-mode default-network-opt default-runtime default-shm-size default-stop-timeout default-ulimit
    deprecated-key-path dns dns-opt dns-opts dns-search exec-opt exec-opts exec-root experimental feature
    firewall-backend fixed-cidr fixed-cidr-v6 group help host host-gateway-ip host-gateway-ips hosts http-proxy
    https-proxy icc init init-path insecure-registries insecure-registry ip ip-forward ip-forward-no-drop ip-masq
    ip6tables iptables ipv6 label labels live-restore log-driver log-format log-level log-opt max-concurrent-downloads
    max-concurrent-uploads max-download-attempts metrics-addr min-api-version mtu network-control-plane-mtu
    network-diagnostic-port no-new-privileges no-proxy node-generic-resource node-generic-resources pidfile raw-logs
    registry-mirror registry-mirrors restart rootless seccomp-profile selinux-enabled shutdown-timeout storage-driver
    storage-opt storage-opts swarm-default-advertise-addr tls tlscacert tlscert tlskey tlsverify userland-proxy
    userland-proxy-path userns-remap validate version
    """.split()  # noqa: SIM905 - one key a line is too long
)


def read_tree(tree: FileTree, main: str = PATH) -> Reading:
    """Read Docker's configuration in a tree of files. Without the file, Docker counts as not installed."""
    remarks: list[Remark] = []
    source = config_file.read_source(tree, main, remarks, "json")
    if source is None:
        return Reading(NAME, None, remarks)
    draft = Draft(
        NAME,
        enabled=False,
        socket_path="",
        plugin_path="/usr/libexec/docker/nri-plugins",
        plugin_config_path="/etc/docker/nri/conf.d",
    )
    content = _parse(source, remarks)
    file = ConfigFile(main, source, content)
    keys: list[KeyPath] = []
    for key, value in content.items():
        # dockerd takes the keys of nested tables for keys of the top level, except in some tables.
        is_flattened = isinstance(value, dict) and key not in _TABLES and not _NRI.search(key)
        keys += [(key, name) for name in value] if is_flattened else [(key,)]
    for path in keys:
        _examine(file, path, remarks)
    _apply_nri_options(draft, file, remarks)
    remarks += [*check_values(file), *conflicts(tree, file, keys)]
    draft.settings["connections"] = bool(draft.settings["socket_path"])
    if Reading(NAME, None, remarks).failure is not None:
        draft.settings["enabled"] = None
    return Reading(NAME, draft.finish(), remarks)


def _parse(source: Source, remarks: list[Remark]) -> dict[str, Any]:
    """Parse the file as Go does: of a key that is given twice, the last value is used, and tables are merged."""
    if not source.text.strip():
        return {}
    try:
        content = parse_json(source.text, object_pairs_hook=_merged_pairs)
    except json.JSONDecodeError as error:
        reason = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} in column {error.colno}"
        remarks.append(Remark(Kind.INVALID, f"{source.name}:{error.lineno}", {"reason": reason}))
        return {}
    except ValueError as error:
        remarks.append(Remark(Kind.INVALID, source.name, {"reason": str(error)}))
        return {}
    if not isinstance(content, (dict, type(None))):
        remarks.append(Remark(Kind.NO_TABLE, source.name))
    return content if isinstance(content, dict) else {}


def _merged_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        earlier = table.pop(key, None)
        table[key] = earlier | value if isinstance(earlier, dict) and isinstance(value, dict) else value
    return table


def _examine(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> None:
    """Remark on a key that dockerd does not have: dockerd does not start with an unknown key."""
    key = keys[-1]
    if key in _TOP_LEVEL_KEYS:
        return
    details = {"reason": f'unknown key "{key}"', "suggestion": suggest(key, _TOP_LEVEL_KEYS)}
    if key in KEYS:
        details["suggestion"] = f'move it into "{TABLE[0]}"'
    elif _NRI.search(key):
        details["suggestion"] = f'write "{TABLE[0]}"'
    else:  # a later release may have it
        remarks.append(Remark(Kind.UNKNOWN_KEY, file.where(*keys), {**details, "key": key}))
        return
    remarks.append(Remark(Kind.START, file.where(*keys), details))


def _apply_nri_options(draft: Draft, file: ConfigFile, remarks: list[Remark]) -> None:
    """Let the keys of `nri-opts` take effect; an unknown key or a wrong type keeps dockerd from starting."""
    options: dict[str, Any] = config_file.typed(file, TABLE, dict, remarks) or {}
    folded = {key.lower(): value for key, value in options.items()}
    spelling: dict[Path, Path] = {(*TABLE, key.lower()): (*TABLE, key) for key in options}
    lower = ConfigFile(file.path, file.source, {TABLE[0]: folded}, spelling)
    for key in options:
        if key.lower() not in KEYS:
            details = {"reason": f'unknown key "{key}"', "suggestion": suggest(key, KEYS)}
            remarks.append(Remark(Kind.START, file.where(*TABLE, key), details))
    config_file.apply_settings(draft, lower, TABLE, SETTINGS, remarks)


RUNTIME = Runtime(
    name=NAME,
    title="Docker Engine",
    path=PATH,
    read=lambda tree, release, path: read_tree(tree, path or PATH),  # noqa: ARG005 - all releases with NRI are alike
    keys={setting.field: setting.key for setting in SETTINGS},
    enabled_value=True,
    switch_on='set "nri-opts": {"enable": true} and reload docker, or nri config-manager --runtime dockerd',
    allow_connections=f'set "socket-path": "{SOCKET}" in "nri-opts"',
    program="dockerd",
    packages=("docker-ce", "docker.io", "moby-engine"),
    unit="docker.service",
    config_flags=("--config-file",),
    check_command=("--validate", "--config-file", "{path}"),
    managed_file=ManagedFile(
        PATH,
        lambda tree, release, path: TABLE,  # noqa: ARG005
        is_operators=True,
        format="json",
        defaults={"socket-path": SOCKET},
    ),
    apply_command="reload",  # a restart would end all containers; dockerd takes over NRI's options on SIGHUP
)
