"""Find and parse the CNI networks of this node: the first usable files in a folder, as in other runtimes.

Unusable files are skipped and reported. The folder is read at each call, because operators can add files at any time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.files import read_regular

#: Supported versions of the CNI specification, the newest last.
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_SUFFIXES = (".conflist", ".conf", ".json")
#: The maximum size of a file. Configurations of networks are far smaller.
_MAX_BYTES = 4 << 20
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
_TYPE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")


@dataclass(frozen=True, slots=True)
class Network:
    """A list of CNI plugins that together attach a pod.

    Attributes:
        disable_check: whether CHECK is never called.
        source: the path of the file.
    """

    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]
    disable_check: bool = False
    source: str = ""


def find_networks(folder: Path, limit: int = 1) -> tuple[list[Network], list[str]]:
    """Return the networks of this node, at most `limit` (0: all), and a line for each unusable file before the last."""
    networks: list[Network] = []
    complaints: list[str] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        return [], [f"{folder}: {error.strerror}"]
    for path in paths:
        try:
            networks.append(parse_network(read_regular(path, _MAX_BYTES).decode(), str(path)))
        except (OSError, ValueError) as error:
            complaints.append(f"{path}: {error}")
        if len(networks) == limit > 0:
            break
    if not networks and not complaints:
        complaints = [f"{folder}: the folder has no network configuration (.conflist, .conf, .json)"]
    return networks, complaints


def parse_network(text: str, source: str = "") -> Network:
    """Parse a configuration with a list of plugins, or with a single plugin. Raises ValueError if it is invalid."""
    data = parse_json(text)
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one kind of complaint for the reader
    rows = data.get("plugins", [data] if "type" in data else [])
    if not isinstance(rows, list) or not rows:
        raise ValueError("'plugins' must be a list of at least one plugin")
    for row in rows:
        if not isinstance(row, dict) or not _TYPE.fullmatch(str(row.get("type", ""))):
            raise ValueError("a plugin's 'type' must be the name of a program")
        for key in ("capabilities", "ipam"):
            if not isinstance(row.get(key) or {}, dict):
                raise ValueError(f"{key!r} of {row['type']} is not an object")  # noqa: TRY004
    name = data.get("name", "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"'name' is {name!r}, which is not a valid network name")
    return Network(name, _version(data), tuple(rows), bool(data.get("disableCheck")), source)


def _version(data: Mapping[str, Any]) -> str:
    """Return the newest supported version that a configuration allows. Raises ValueError if it allows none of them."""
    versions = data.get("cniVersions") or [data.get("cniVersion") or "0.3.1"]
    supported = [version for version in VERSIONS if version in versions] if isinstance(versions, list) else []
    if not supported:
        first = versions[0] if isinstance(versions, list) else versions
        raise ValueError(f"'cniVersion' is {first!r:.80}; this engine supports {', '.join(VERSIONS)}")
    return supported[-1]
