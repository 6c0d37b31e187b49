"""Configurations of containerd drawn at random: versions, imports, NRI's and the CRI's tables, some values wrong."""

from __future__ import annotations

import json
from random import Random

NRI = "io.containerd.nri.v1.nri"
_TABLES = (f'[plugins."{NRI}"]',) * 8 + ("[plugins.nri]", f'[Plugins."{NRI}"]', f"[plugins.'{NRI}']")
_NRI_LINES = (
    "disable = false", "disable = false", "disable = true", "Disable = true", "DISABLE = false", "disable = 1",
    'socket_path = "/run/nri/a.sock"', 'socket_path = ""', 'Socket_Path = "/run/nri/b.sock"', 'plugin_path = "/opt/b"',
    "plugin_path = 5", 'plugin_request_timeout = "7s"', 'plugin_request_timeout = "0s"', 'plugin_request_timeout = ""',
    "plugin_registration_timeout = 3000000000", "disable_connections = true", "default_validator = {enable = true}",
    "default_validator = 1", "plugin_config_path = []", "unknown = 1",
)  # fmt: skip
_CRI_NAMES = ('"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.runtime"', '"io.containerd.cri.v1.images"', "cri")
_CRI_LINES = (
    ("", "enable_selinux = true"), ("", "enable_selinux = 1"), ("", 'sandbox_image = "a"'), ("", "sandbox_image = 2"),
    ("", 'snapshotter = "native"'), ("", 'stats_collect_period = "5s"'), (".containerd", 'default_runtime_name = "x"'),
    (".containerd", "default_runtime_name = 1"), (".containerd.runtimes.x", 'runtime_type = "io.containerd.runc.v2"'),
    (".registry", "config_path = []"), (".cni", 'max_conf_num = "1"'),
)  # fmt: skip
_OTHER = (
    '[plugins."io.containerd.gc.v1.scheduler"]\npause_threshold = 1',
    '[plugins."io.containerd.gc.v1.scheduler"]\nstartup_delay = "x"',
    '[grpc]\ngid = "0"', "[debug]\nlevel = 1", '[timeouts]\n"a" = 5', "[plugins.example]\na = 1",
)  # fmt: skip
_IMPORTS = (
    "conf.d/*.toml", "conf.d/*.toml", "conf.d/*.toml", "/etc/containerd/conf.d/[!b]*.toml", "conf.d/[^a]*", "conf.d/.*",
    "conf.d/**/*", "conf.d/[*",
)  # fmt: skip
_PLUGIN_NAMES = (
    "cri", "nri", NRI, "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "a.b", "overlayfs",
    "io.containerd.snapshotter.v1.zfs",
)  # fmt: skip


def draw_files(random: Random) -> dict[str, str]:
    """Draw a main file and up to two drop-ins, by their paths below the folder of the main file."""
    names = random.choice(((), ("a.toml",), ("a.toml", "b.toml"), (".a.toml", "a.toml")))
    return {"config.toml": _file(random, is_main=True)} | {f"conf.d/{name}": _file(random) for name in names}


def _file(random: Random, *, is_main: bool = False) -> str:
    version = random.choice(
        ("", "", "version = 1", "version = 2", "version = 2", "version = 3", "version = 4", "x = 1")
    )
    lines = [version, f"imports = {json.dumps([random.choice(_IMPORTS)])}" if is_main else ""]
    lines += [
        f"{key} = {json.dumps(random.sample(_PLUGIN_NAMES, random.randint(0, 2)))}"
        for key in ("disabled_plugins", "required_plugins")
        if random.random() < 0.2
    ]
    tables: dict[str, list[str]] = {}
    for _ in range(random.randint(0, 2)):
        tables.setdefault(random.choice(_TABLES), []).extend(random.sample(_NRI_LINES, random.randint(0, 3)))
    if random.random() < 0.3:
        below, line = random.choice(_CRI_LINES)
        tables[f"[plugins.{random.choice(_CRI_NAMES)}{below}]"] = [line]
    if random.random() < 0.15:
        tables[random.choice(_OTHER)] = []
    body = [line for header, keys in tables.items() for line in (header, *_unique(keys))]
    return "\n".join([*filter(None, lines), *body, ""])


def _unique(lines: list[str]) -> list[str]:
    """Keep one line for each key, since a key twice is a mistake of another kind."""
    return list({line.partition(" =")[0]: line for line in lines}.values())
