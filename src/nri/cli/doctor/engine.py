"""The engine of this project as one of the doctor's runtimes. It counts as present if its file or socket exists."""

from __future__ import annotations

import os

from nri.cli.doctor import Finding
from nri.config.complaint import single_errors
from nri.config.root import resolve_below
from nri.config.runtimes.reading import Reading, RuntimeNri
from nri.config.runtimes.runtime import Runtime
from nri.errors import ConfigError

NAME = "nri-engine"
#: The engine's key in the table [nri] for each field of `RuntimeNri`.
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
    """The engine's NRI settings below `root`; None without an engine, or if `findings` has mistakes of its file."""
    from nri.engine.config import ENGINE_SETTINGS, EngineConfig

    path = resolve_below(root, ENGINE_SETTINGS.default_path)
    file_exists = os.path.exists(path)
    if not file_exists and not os.path.exists(resolve_below(root, str(EngineConfig().socket))):
        return None
    settings, places = EngineConfig(), dict[str, str]()
    try:
        if file_exists:  # without a path, this machine's file would be read instead of the one below `root`
            loaded = ENGINE_SETTINGS.load(path, environment={})
            settings, places = loaded.settings, dict(loaded.origins)
    except ConfigError as error:
        for problem in single_errors(error):
            path = _path_in_root(problem.source, root)
            where = f"{path}: {problem.key}" if problem.key else path
            step = problem.suggestion or "correct it: the engine does not start with this file"
            findings.append(Finding("problem", problem.reason, where, step))
        return None
    nri = settings.nri
    origins = {
        key: f"{_path_in_root(places[f'nri.{key}'], root)}: nri.{key}"
        for key in _KEYS.values()
        if f"nri.{key}" in places
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


def _path_in_root(place: str, root: str) -> str:
    """The path as processes inside the root see it."""
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
