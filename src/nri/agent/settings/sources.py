"""The agent's settings out of files, environment and flags, each with the place that it came from.

    loaded = load_settings("/etc/nri/agent.toml", flags={"modes": ("--mode", ["nri"])})
    loaded.settings.modes, loaded.origins["modes"]

Order, the later over the earlier key by key: defaults, the files as they are named, environment, flags. Unknown keys
are errors, and all errors of all sources are told together. Next: :mod:`nri.agent.settings.base`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from nri.agent.settings.values import AgentSettings
from nri.config import Source, read_file
from nri.config.complaint import apart, together
from nri.config.given import Given, given_layer
from nri.config.layers import Layer, layer_of, merge
from nri.errors import ConfigError

__all__ = ["CONFIG_VARIABLE", "DEFAULT_PATH", "ENVIRONMENT", "LoadedSettings", "load_settings"]

#: The file that is read if it is there and none is named.
DEFAULT_PATH = "/etc/nri/agent.toml"

#: Variables of the environment, and the key that each one sets. NRI_AGENT_CONFIG names the file.
ENVIRONMENT = {
    "NRI_AGENT_SOCKET": "socket",
    "NRI_AGENT_LOG_LEVEL": "log_level",
    "NRI_AGENT_ROOT": "root",
    "NRI_SOCKET": "nri.socket",
    "NODE_NAME": "rules.node_name",
    "KUBECONFIG": "rules.kubeconfig",
}
CONFIG_VARIABLE = "NRI_AGENT_CONFIG"


class LoadedSettings(NamedTuple):
    """The settings and where they came from.

    Attributes:
        origins: by dotted key: "file:line", a flag or a variable of the environment; a key that is not here has its
            default.
        files: those that were read.
    """

    settings: AgentSettings
    origins: Mapping[str, str]
    files: tuple[str, ...]


def load_settings(
    *paths: str | os.PathLike[str],
    flags: Mapping[str, Given] | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read the settings. `flags` are values by dotted key. Raises ConfigError with all problems of all sources.

    Without paths the file is the one that NRI_AGENT_CONFIG names, else `DEFAULT_PATH` if it is there.
    """
    variables = os.environ if environment is None else environment
    names = [os.fspath(path) for path in paths]
    if not names:
        named = variables.get(CONFIG_VARIABLE)
        names = [named] if named else [DEFAULT_PATH] if os.path.exists(DEFAULT_PATH) else []
    layers, errors = [], []
    for name in names:
        try:
            layers.append(_file_layer(name))
        except ConfigError as error:
            errors += apart(error)
    found: dict[str, Any] = {
        key: (variable, variables[variable]) for variable, key in ENVIRONMENT.items() if variables.get(variable)
    }
    layers += [given_layer(given) for given in (found, flags or {}) if given]
    try:
        merged = merge(AgentSettings, layers)
    except ConfigError as error:
        raise together([*errors, *apart(error)]) from None
    if errors:
        raise together(errors)
    return LoadedSettings(merged.value, merged.origins, tuple(names))


def _file_layer(name: str) -> Layer:
    """The layer of one file: TOML, unless its name says another format."""
    source = read_file(name)
    return layer_of(source if source.format != "auto" else Source(name, source.text, "toml"))
