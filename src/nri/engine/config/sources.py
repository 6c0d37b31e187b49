"""The engine's settings out of files, environment and flags, each with the place that it came from.

    loaded = load_config("/etc/nri/engine.toml", flags={"socket": ("--socket", "/run/e.sock")})
    loaded.config.socket, loaded.origins["socket"]

Order, the later over the earlier key by key: defaults, the files as they are named, environment, flags. Unknown keys
are errors. A file may also be containerd's configuration or iSulad's daemon.json, of which the settings of NRI count;
containerd's NRI table may stand in the engine's own file as well.
Next: :mod:`nri.engine.config.foreign`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from nri.config import Source, read_file
from nri.config.complaint import apart, together
from nri.config.given import Given, given_layer
from nri.config.layers import Layer, layer_of, merge
from nri.config.runtimes.containerd import PLUGIN
from nri.engine.config.foreign import Foreign, containerd_layer, isulad_layer, unpacked
from nri.engine.config.values import EngineConfig
from nri.errors import ConfigError

__all__ = ["DEFAULT_PATH", "ENVIRONMENT", "LoadedConfig", "load_config"]

#: The file that is read if it is there and none is named.
DEFAULT_PATH = "/etc/nri/engine.toml"

#: Variables of the environment, and the key that each one sets. NRI_ENGINE_CONFIG names the file.
ENVIRONMENT = {
    "NRI_ENGINE_SOCKET": "socket",
    "NRI_ENGINE_LOG_LEVEL": "log_level",
    "NRI_SOCKET": "nri.socket_path",
}
CONFIG_VARIABLE = "NRI_ENGINE_CONFIG"

#: Keys at the top of a file that make it containerd's.
_CONTAINERD = {
    "version", "imports", "grpc", "ttrpc", "debug", "metrics", "timeouts", "oom_score", "required_plugins",
    "disabled_plugins", "proxy_plugins", "stream_processors", "temp", "cgroup",
}  # fmt: skip
_ISULAD = re.compile(r'"(nri[-_]support|disable[-_]connections|plugin[-_](config[-_])?path|plugin[-_]\w+[-_]timeout)"')
_JSON = re.compile(r"(\s|(#|//)[^\n]*)*\{")


class LoadedConfig(NamedTuple):
    """The settings and where they came from.

    Attributes:
        origins: by dotted key: "file:line", a flag or a variable of the environment; a key that is not here has its
            default.
        files: those that were read.
        notes: what the authors of the files should know, a line each.
    """

    config: EngineConfig
    origins: Mapping[str, str]
    files: tuple[str, ...]
    notes: tuple[str, ...]


def load_config(
    *paths: str | os.PathLike[str],
    flags: Mapping[str, Given] | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read the settings. `flags` are values by dotted key. Raises ConfigError with all problems of all sources.

    Without paths the file is the one that NRI_ENGINE_CONFIG names, else `DEFAULT_PATH` if it is there.
    """
    variables = os.environ if environment is None else environment
    names = [os.fspath(path) for path in paths]
    if not names:
        named = variables.get(CONFIG_VARIABLE)
        names = [named] if named else [DEFAULT_PATH] if os.path.exists(DEFAULT_PATH) else []
    layers, notes, errors = [], [], []
    for name in names:
        try:
            layer, said = _file_layer(name)
            layers.append(layer)
            notes += said
        except ConfigError as error:
            errors += apart(error)
    found = {key: (variable, variables[variable]) for variable, key in ENVIRONMENT.items() if variables.get(variable)}
    layers += [given_layer(given) for given in (found, flags or {}) if given]
    try:
        merged = merge(EngineConfig, layers)
    except ConfigError as error:
        raise together([*errors, *apart(error)]) from None
    if errors:
        raise together(errors)
    return LoadedConfig(merged.value, merged.origins, tuple(names), tuple(notes))


def _file_layer(name: str) -> tuple[Layer, list[str]]:
    """The layer of one file, whosever it is."""
    source = read_file(name)
    if source.format != "toml" and _JSON.match(source.text):
        if _ISULAD.search(source.text) or os.path.basename(name) == "daemon.json":
            return _foreign(isulad_layer(name))
        return layer_of(Source(name, source.text, "json")), []
    layer = layer_of(source if source.format != "auto" else Source(name, source.text, "toml"))
    tree = layer.tree
    if not isinstance(tree, dict):
        return layer, []
    plugins = tree.get("plugins")
    if _CONTAINERD & set(tree) or (isinstance(plugins, dict) and set(plugins) - {PLUGIN}):
        return _foreign(containerd_layer(name))
    if isinstance(plugins, dict) and PLUGIN in plugins:
        return unpacked(source, tree, layer), []
    return layer, []


def _foreign(found: Foreign) -> tuple[Layer, list[str]]:
    return found.layer, found.notes
