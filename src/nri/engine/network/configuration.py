"""The CNI network of this node: the first usable file of a folder, as every runtime of the field chooses.

Files in the order of their names, ``.conflist``, ``.conf`` and ``.json``; a file that cannot be used is passed
over and named; the folder is read at each call, because operators put the file there while we run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.files import read_regular

#: Versions of the CNI specification that this speaks, the newest last.
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_SUFFIXES = (".conflist", ".conf", ".json")
#: No configuration of a network comes near it.
_MOST_BYTES = 4 << 20
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
_TYPE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")


@dataclass(frozen=True, slots=True)
class Network:
    """A list of plugins that together attach a pod. `disable_check`: the operator wants no CHECK."""

    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]
    disable_check: bool = False
    source: str = ""


def find_network(folder: Path) -> tuple[Network | None, list[str]]:
    """The network of this node, and a line for each file that cannot be used."""
    complaints: list[str] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        return None, [f"{folder}: {error.strerror}"]
    for path in paths:
        try:
            return parse_network(read_regular(path, _MOST_BYTES).decode(), str(path)), complaints
        except (OSError, ValueError) as error:
            complaints.append(f"{path}: {error}")
    return None, complaints or [f"{folder}: no file of a network in it (.conflist, .conf, .json)"]


def parse_network(text: str, source: str = "") -> Network:
    """A network out of its file: a list, or one plugin alone. Raises ValueError with what is wrong."""
    data = parse_json(text)
    if not isinstance(data, dict):
        raise ValueError("it is not a table of keys and values")  # noqa: TRY004  one kind of complaint for the reader
    rows = data.get("plugins", [data] if "type" in data else [])
    if not isinstance(rows, list) or not rows:
        raise ValueError("'plugins' lists none")
    for row in rows:
        if not isinstance(row, dict) or not _TYPE.fullmatch(str(row.get("type", ""))):
            raise ValueError("a plugin has no 'type', or one that is no program's name")
        for key in ("capabilities", "ipam"):
            if not isinstance(row.get(key) or {}, dict):
                raise ValueError(f"{key!r} of {row['type']} is not a table")  # noqa: TRY004
    name = data.get("name", "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"'name' is {name!r}, which names no network")
    return Network(name, _version(data), tuple(rows), bool(data.get("disableCheck")), source)


def _version(data: Mapping[str, Any]) -> str:
    """The version to speak: the one that is named, or the newest of several that we know."""
    named = data.get("cniVersions") or [data.get("cniVersion") or "0.3.1"]
    known = [version for version in VERSIONS if version in named] if isinstance(named, list) else []
    if not known:
        shown = named[0] if isinstance(named, list) else named
        raise ValueError(f"'cniVersion' is {shown!r:.80}, and this engine speaks {', '.join(VERSIONS)}")
    return known[-1]
