"""The flags of dockerd in its systemd unit: dockerd does not start if an option has a flag and a key in daemon.json.

The most frequent case is `hosts`: the unit of the packages has `-H fd://`.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from nri.config.runtimes.reading import Kind, Remark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from nri.config.runtimes.config_file import ConfigFile
    from nri.config.runtimes.file_tree import FileTree

#: The folders of units, the folder with the highest precedence first.
_FOLDERS = (
    "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/lib/systemd/system",
)  # fmt: skip
_UNIT = "docker.service"
_MAX_DROP_INS = 100
_SHORT_FLAGS = {
    "b": "bridge", "D": "debug", "G": "group", "s": "storage-driver", "H": "host", "l": "log-level", "p": "pidfile",
}  # fmt: skip
#: The keys of flags that have another name in daemon.json.
_KEYS = {
    **{flag: f"{flag}s" for flag in (
        "authorization-plugin", "cdi-spec-dir", "default-address-pool", "default-network-opt", "default-ulimit",
        "dns-opt", "exec-opt", "feature", "host", "host-gateway-ip", "label", "log-opt", "node-generic-resource",
        "registry-mirror", "storage-opt",
    )},
    "insecure-registry": "insecure-registries",
}  # fmt: skip


def conflicts(tree: FileTree, file: ConfigFile, keys: Collection[tuple[str, ...]]) -> Iterator[Remark]:
    """Generate a remark for each key of daemon.json that is a flag of the unit, too.

    Args:
        keys: the paths of the keys that count as options.
    """
    flags, unit = _flags(tree)
    for path in keys:
        if path[-1] in flags:
            reason = f"{flags[path[-1]]} in {unit} is the same option"
            details = {"reason": reason, "suggestion": "keep one of the two"}
            yield Remark(Kind.START, file.where(*path), details)


def _flags(tree: FileTree) -> tuple[dict[str, str], str]:
    """Return the flags in the unit, by key of daemon.json, and the file of the last command line."""
    command, path = "", ""
    for place in _files(tree):
        try:
            text = tree.read(place).decode(errors="replace")
        except OSError:
            continue
        for line in re.sub(r"\\\n", " ", text).splitlines():
            name, equals, value = line.partition("=")
            if name.strip() == "ExecStart" and equals:
                command, path = value.strip(), place
    try:
        words = shlex.split(command)
    except ValueError:
        return {}, path
    flags: dict[str, str] = {}
    for word in words[1:]:
        if match := re.match(r"(--[a-z][\w-]*|-\w)", word):
            name = match[1].lstrip("-")
            name = _SHORT_FLAGS.get(name, name) if len(match[1]) == 2 else name
            flags[_KEYS.get(name, name)] = match[1]
    return flags, path


def _files(tree: FileTree) -> list[str]:
    """Return the unit and its drop-ins, in the order in which they count."""
    unit = next((path for folder in _FOLDERS if tree.exists(path := f"{folder}/{_UNIT}")), "")
    drop_ins: dict[str, str] = {}
    for folder in reversed(_FOLDERS):
        try:
            names = tree.names(f"{folder}/{_UNIT}.d")
        except OSError:
            continue
        drop_ins |= {name: f"{folder}/{_UNIT}.d/{name}" for name in names if name.endswith(".conf")}
    return [unit, *(drop_ins[name] for name in sorted(drop_ins)[:_MAX_DROP_INS])] if unit else []
