"""The plugin's configuration: the runtime's text, then `--config FILE`, then its own flags, over its class's defaults.

`nri.config` does the reading and is imported only when there is something to read.
"""

from __future__ import annotations

from nri.errors import ConfigError
from nri.stub.support.initial import defaults, has_all_defaults
from nri.stub.support.mirror import Mirror
from nri.stub.support.runtime_handle import RuntimeHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from nri.stub.base import PluginBase

__all__ = ["apply", "check_flags", "check_own"]

_RUNTIME = "the runtime's configuration"
_NONE: Mapping[str, list[str] | bool] = {}


def check_own(plugin: PluginBase) -> None:
    """Raise ConfigError for what a plugin's own `__init__` has put where a connection puts something else over it.

    What `configure` makes of the configuration is not judged: a plugin that was connected before has its runtime.
    """
    own: dict[str, Any] = vars(plugin)
    if isinstance(own.get("runtime"), RuntimeHandle):
        return
    fitting: dict[str, type] = {"config": plugin.Config or str, "runtime": RuntimeHandle}
    if plugin.mirror:
        fitting["state"] = Mirror
    for name, kind in fitting.items():
        if name in own and not isinstance(own[name], kind):
            reason = f"is {own[name]!r}, and each connection sets another one over it"
            raise ConfigError(f"class {type(plugin).__name__}", f"self.{name}", reason, "call it otherwise")


def apply(plugin: PluginBase, text: str, file: str | None = None, own: Mapping[str, list[str] | bool] = _NONE) -> None:
    """Set `plugin.config`. Without a `Config` class it is the runtime's text, or the file's, as it is.

    Args:
        plugin: whose configuration it is.
        text: the runtime's.
        file: path of the file of `--config`, if there is one.
        own: the plugin's own flags as they were given (`nri.stub.program.options.Options.own`).

    Raises:
        ConfigError: a source cannot be read, or does not fit; names source, key and value.
    """
    config_class = plugin.Config
    plugin.config_source = file or (_RUNTIME if text.strip() else "")
    if config_class is None and file is None:
        plugin.config = text
        return
    if not text.strip() and file is None and not own and config_class is not None:
        plugin.config = defaults(config_class)
        return
    simple = _simple(config_class, plugin.flags, own) if not text.strip() and file is None else None
    if simple is not None:
        plugin.config = defaults(config_class)  # type: ignore[arg-type]  # `_simple` has seen that there is one
        for field, value in simple.items():
            setattr(plugin.config, field, value)
        return
    from nri.config import Source, read, read_file

    sources = []
    if text.strip():
        sources.append(Source(_RUNTIME, text, plugin.config_format))
    if file is not None:
        sources.append(read_file(file, None if plugin.config_format == "auto" else plugin.config_format))
    if config_class is None:
        plugin.config = sources[-1].text
    elif own:
        from nri.config.layers import layer_of, merge

        layers = [layer_of(source) for source in sources]
        plugin.config = merge(config_class, [*layers, *_flag_layers(config_class, plugin.flags, own)]).value
    else:
        plugin.config = read(config_class, sources)


def check_flags(plugin_class: type[PluginBase], own: Mapping[str, list[str] | bool]) -> None:
    """Check a plugin's own flags by themselves, before there is a runtime.

    Raises:
        ConfigError: names the flag, and what it takes.
    """
    config_class = plugin_class.Config
    if own and config_class is not None and _simple(config_class, plugin_class.flags, own) is None:
        from nri.config.flags import check

        check(config_class, _flag_layers(config_class, plugin_class.flags, own))


def _simple(
    config_class: type | None, flags: Mapping[str, tuple[str, str, str]], own: Mapping[str, list[str] | bool]
) -> dict[str, str | bool] | None:
    """Return what flags set if they are texts and switches, in which nothing can be wrong; else None.

    The reader of all else costs a start 35 ms, and the process 3 MiB for as long as it runs.
    """
    if config_class is None or hasattr(config_class, "__post_init__") or not has_all_defaults(config_class):
        return None
    values: dict[str, str | bool] = {}
    for name, given in own.items():
        field = flags[name][0]
        kind = next(_annotations(base)[field] for base in config_class.__mro__ if field in _annotations(base))
        if isinstance(given, bool) and kind in ("bool", bool):
            values[field] = given
        elif not isinstance(given, bool) and kind in ("str", str):
            values[field] = given[-1]
        else:
            return None
    return values


def _annotations(base: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = base.__dict__.get("__annotations__", {})
    return found


def _flag_layers(
    config_class: type, flags: Mapping[str, tuple[str, str, str]], own: Mapping[str, list[str] | bool]
) -> list[Any]:
    from nri.config.flags import flag_layer

    return [flag_layer(config_class, name, flags[name][0], given) for name, given in own.items()]
