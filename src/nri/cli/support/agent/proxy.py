"""The CRI proxy as a program: its settings out of files, environment and flags; its log, signals, systemd, and its end.

The later over the earlier, key by key: defaults; the files as they are named; the environment; flags. Next:
`nri.proxy.proxy`.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from nri.cli.errors import FAILED, INTERRUPTED, Failure, describe
from nri.cli.support.agent.process import missing
from nri.cli.support.engine.process import Signals, log_to
from nri.config import Source, read_file
from nri.config.given import given_layer, parse_setting
from nri.config.layers import layer_of, merge
from nri.errors import NriError
from nri.stub.program.health import notify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.cli.settings import Settings
    from nri.config.layers import Layer
    from nri.proxy.settings import ProxySettings

__all__ = ["DEFAULT_PATH", "KEYS", "VARIABLE", "load", "run"]

_log = logging.getLogger("nri.proxy")

#: The file that is read if it is there and none is named; the variable that names another one.
DEFAULT_PATH = "/etc/nri/proxy.toml"
VARIABLE = "NRI_PROXY_CONFIG"
#: The key that each option sets.
KEYS = {
    "listen": "listen",
    "runtime_endpoint": "runtime_endpoint",
    "plugin_path": "nri.plugin_path",
    "plugin_config_path": "nri.plugin_config_path",
    "policy": "nri.policy_path",
    "state": "state",
    "hook_servers": "hook_servers.folder",
}


def load(settings: Settings, options: Mapping[str, Any]) -> tuple[ProxySettings, tuple[str, ...]]:
    """The settings as options and environment say, and the files that were read. ConfigError with all mistakes."""
    try:
        from nri.proxy.settings import ProxySettings
    except ModuleNotFoundError as error:
        missing("the proxy", error)
    names = tuple(options["files"])
    if not names:
        named = os.environ.get(VARIABLE)
        names = (named,) if named else (DEFAULT_PATH,) if os.path.exists(DEFAULT_PATH) else ()
    flags: dict[str, tuple[str, Any]] = {}
    for text in options["given"]:
        key, value = parse_setting(text, "nri.plugin_request_timeout=5s")
        flags[key] = ("--set", value)
    for option, key in KEYS.items():
        if options[option] is not None:
            flags[key] = (f"--{option.replace('_', '-')}", options[option])
    if options["hook_servers"] is not None:
        flags["hook_servers.enable"] = ("--hook-servers", True)
    if settings.socket_path:
        flags["nri.socket_path"] = (settings.socket_from, settings.socket_path)
    return merge(ProxySettings, [*map(_file_layer, names), given_layer(flags)]).value, names


def run(settings: Settings, config: ProxySettings, files: tuple[str, ...]) -> int:
    """Run the proxy until a signal; returns the exit code. Raises Failure if it cannot start."""
    log_to(settings, "info")
    _log.info("settings: %s", ", ".join(files) or f"defaults and flags, for there is no {DEFAULT_PATH}")
    try:
        from nri.proxy import Proxy
        from nri.proxy.hook_servers import RegisteredServers
    except ModuleNotFoundError as error:
        missing("the proxy", error)
    signals = Signals()
    try:
        skip = (config.skip_label_key, config.skip_label_value)
        servers = RegisteredServers(config.hook_servers.folder, skip=skip) if config.hook_servers.enable else None
        proxy = Proxy(config, hook_servers=servers)
        proxy.start()
    except (NriError, OSError) as error:
        raise Failure(f"the proxy cannot start: {describe(error)}", FAILED) from error
    number = 0
    try:
        if not signals.first:
            _log.info("ready: %s", proxy.describe())
            notify("READY=1")
        number = signals.wait()
        _log.info("stopping after %s; containers run on", signal.Signals(number).name)
        notify("STOPPING=1")
    finally:
        proxy.stop()
    return INTERRUPTED if number == signal.SIGINT else 0


def _file_layer(name: str) -> Layer:
    """The layer of one file: TOML, unless its name says another format."""
    source = read_file(name)
    return layer_of(source if source.format != "auto" else Source(name, source.text, "toml"))
