"""The engine of this project as a runtime that the doctor knows: there is one if its file or its socket is there.

Next: `nri.engine.config` reads the file.
"""

from __future__ import annotations

import os

from nri.cli.doctor import Finding
from nri.config.complaint import apart
from nri.config.root import inside
from nri.config.runtimes.reading import Reading, RuntimeNri
from nri.config.runtimes.runtime import Runtime
from nri.errors import ConfigError

NAME = "nri-engine"
#: A field of `RuntimeNri` -> its key in the engine's table [nri].
_KEYS = {
    "enabled": "disable",
    "connections": "disable_connections",
    "socket_path": "socket_path",
    "plugin_path": "plugin_path",
    "plugin_config_path": "plugin_config_path",
    "registration_timeout_s": "plugin_registration_timeout",
    "request_timeout_s": "plugin_request_timeout",
}


def read(root: str, findings: list[Finding]) -> RuntimeNri | None:
    """The engine's NRI settings below `root`; None if there is no engine, or its file has mistakes, which are found."""
    from nri.engine.config import ENGINE_SETTINGS, EngineConfig

    path = inside(root, ENGINE_SETTINGS.default_path)
    there = os.path.exists(path)
    if not there and not os.path.exists(inside(root, str(EngineConfig().socket))):
        return None
    settings, places = EngineConfig(), dict[str, str]()
    try:
        if there:  # without a path the machine's own file would be read, whatever the root is
            loaded = ENGINE_SETTINGS.load(path, environment={})
            settings, places = loaded.settings, dict(loaded.origins)
    except ConfigError as error:
        for one in apart(error):
            where = f"{_seen(one.source, root)}: {one.key}" if one.key else _seen(one.source, root)
            findings.append(
                Finding("problem", one.reason, where, one.suggestion or "the engine does not start with it")
            )
        return None
    nri = settings.nri
    origins = {
        key: f"{_seen(places[f'nri.{key}'], root)}: nri.{key}" for key in _KEYS.values() if f"nri.{key}" in places
    }
    validator = nri.default_validator
    return RuntimeNri(
        NAME,
        enabled=not nri.disable,
        connections=not nri.disable_connections,
        socket_path=nri.socket_path,
        plugin_path=nri.plugin_path,
        plugin_config_path=nri.plugin_config_path,
        registration_timeout_s=nri.plugin_registration_timeout,
        request_timeout_s=nri.plugin_request_timeout,
        required=validator.required_plugins if validator.enable else (),
        origin=origins,
    )


def _seen(place: str, root: str) -> str:
    """A place as it is called inside the root."""
    return place.removeprefix(root.rstrip("/"))


RUNTIME = Runtime(
    name=NAME,
    title=NAME,
    path="/etc/nri/engine.toml",
    read=lambda tree, release, path: Reading(NAME, None, []),  # noqa: ARG005 - the doctor calls `read` itself
    keys=_KEYS,
    enabled_value=False,
    switch_on="set disable = false in [nri] and restart nri-engine",
    allow_connections="set disable_connections = false",
    program=NAME,
)
