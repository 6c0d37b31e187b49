"""The plugin's configuration: the runtime's text, then `--config FILE`, then its own flags, over its class's defaults.

`nri.config` does the reading and is imported only when there is something to read.
"""

from __future__ import annotations

from nri.stub.support.before import defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from nri.stub.base import PluginBase

__all__ = ["apply", "check_flags"]

_NONE: Mapping[str, list[str] | bool] = {}


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
    if config_class is None and file is None:
        plugin.config = text
        return
    if not text.strip() and file is None and not own and config_class is not None:
        plugin.config = defaults(config_class)
        return
    from nri.config import Source, read, read_file

    sources = []
    if text.strip():
        sources.append(Source("the runtime's configuration", text, plugin.config_format))
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
    if own and plugin_class.Config is not None:
        from nri.config.flags import check

        check(plugin_class.Config, _flag_layers(plugin_class.Config, plugin_class.flags, own))


def _flag_layers(
    config_class: type, flags: Mapping[str, tuple[str, str, str]], own: Mapping[str, list[str] | bool]
) -> list[Any]:
    from nri.config.flags import flag_layer

    return [flag_layer(config_class, name, flags[name][0], given) for name, given in own.items()]
