"""The sources of the engine's settings: files in several formats, and environment variables.

A file is engine.toml, containerd's configuration, or iSulad's daemon.json. Users may also paste containerd's NRI table
into engine.toml.
"""

from __future__ import annotations

import os
import re
from typing import Final

from nri.config import Source, read_file
from nri.config.layers import parse_layer
from nri.config.runtimes.containerd import PLUGIN
from nri.config.settings import FileLayer, SettingsLoader
from nri.engine.config.foreign import containerd_layer, isulad_layer, unpacked
from nri.engine.config.values import EngineConfig

#: Top-level keys of containerd. A file with one or more of these keys is a containerd configuration.
_CONTAINERD = {
    "version", "imports", "grpc", "ttrpc", "debug", "metrics", "timeouts", "oom_score", "required_plugins",
    "disabled_plugins", "proxy_plugins", "stream_processors", "temp", "cgroup",
}  # fmt: skip
#: Keys of iSulad's daemon.json. A JSON file with one of these keys is read as iSulad's.
_ISULAD = re.compile(r'"(nri[-_]support|disable[-_]connections|plugin[-_](config[-_])?path|plugin[-_]\w+[-_]timeout)"')
#: The beginning of a JSON document: white space and comments, then a brace. A comment includes the end of its line:
#: without it, the number of ways to match a line of many # would grow exponentially.
_JSON = re.compile(r"(?:\s|(?:#|//)[^\n]*\n)*\{")


def _file_layer(name: str) -> FileLayer:
    """Read a file in one of the formats."""
    source = read_file(name)
    if source.format != "toml" and _JSON.match(source.text):
        if _ISULAD.search(source.text) or os.path.basename(name) == "daemon.json":
            return isulad_layer(name)
        return FileLayer(parse_layer(Source(name, source.text, "json")))
    layer = parse_layer(source if source.format != "auto" else Source(name, source.text, "toml"))
    tree = layer.tree
    if not isinstance(tree, dict):
        return FileLayer(layer)
    plugins = tree.get("plugins")
    if _CONTAINERD & set(tree) or (isinstance(plugins, dict) and set(plugins) - {PLUGIN}):
        return containerd_layer(name)
    if isinstance(plugins, dict) and PLUGIN in plugins:
        return FileLayer(unpacked(source, tree, layer))
    return FileLayer(layer)


ENGINE_SETTINGS: Final = SettingsLoader(
    EngineConfig,
    "/etc/nri/engine.toml",
    "NRI_ENGINE_CONFIG",
    {
        "NRI_ENGINE_SOCKET": "socket",
        "NRI_ENGINE_LOG_LEVEL": "log_level",
        "NRI_SOCKET": "nri.socket_path",
    },
    _file_layer,
)
