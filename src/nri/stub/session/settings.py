"""Set a plugin's configuration, from the defaults of its class, the runtime's text, `--config FILE` and its flags.

`nri.config` is imported only if there is something to read.
"""

from __future__ import annotations

from nri.errors import ConfigError
from nri.stub.support.checks import reads_attribute
from nri.stub.support.default_attributes import defaults, has_all_defaults
from nri.stub.support.mirror import Mirror
from nri.stub.support.runtime_handle import RuntimeHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from nri.stub.base import PluginBase

_RUNTIME = "the runtime's configuration"
_NO_FLAGS: Mapping[str, list[str] | bool] = {}


def check_attributes(plugin: PluginBase) -> None:
    """Raise ConfigError for attributes set in a plugin's `__init__` that each connection overwrites.

    A plugin that was connected before is not checked, because `configure` may change the configuration.
    """
    attributes: dict[str, Any] = vars(plugin)
    if isinstance(attributes.get("runtime"), RuntimeHandle):
        return
    expected_types: dict[str, type] = {"config": plugin.Config or str, "runtime": RuntimeHandle}
    if plugin.mirror:
        expected_types["state"] = Mirror
    for name, kind in expected_types.items():
        if name in attributes and not isinstance(attributes[name], kind):
            reason = f"is {attributes[name]!r}, but each connection overwrites it"
            raise ConfigError(f"class {type(plugin).__name__}", f"self.{name}", reason, "rename the attribute")


def apply(
    plugin: PluginBase, text: str, file: str | None = None, flag_values: Mapping[str, list[str] | bool] = _NO_FLAGS
) -> None:
    """Set `plugin.config`. Without a `Config` class it is the unchanged configuration text of the runtime or the file.

    Args:
        plugin: the plugin.
        text: the configuration text of the runtime.
        file: the path of the file of `--config`, or None.
        flag_values: the plugin's flags (`nri.stub.program.options.Options.own`).

    Raises:
        ConfigError: a source cannot be read or is invalid; the error has source, key and value.
    """
    config_class = plugin.Config
    plugin.config_source = file or (_RUNTIME if text.strip() else "")
    if config_class is None and (file is not None or text.strip()):
        _check_config_is_used(plugin, file)
    if config_class is None and file is None:
        plugin.config = text
        return
    if not text.strip() and file is None and not flag_values and config_class is not None:
        plugin.config = defaults(config_class)
        return
    simple = _simple_values(config_class, plugin.flags, flag_values) if not text.strip() and file is None else None
    if simple is not None:
        plugin.config = defaults(config_class)  # type: ignore[arg-type]  # `_simple_values` returns None without a class
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
    elif flag_values:
        from nri.config.layers import merge, parse_layer

        layers = [parse_layer(source) for source in sources]
        plugin.config = merge(config_class, [*layers, *_flag_layers(config_class, plugin.flags, flag_values)]).value
    else:
        plugin.config = read(config_class, sources)


def _check_config_is_used(plugin: PluginBase, file: str | None) -> None:
    """Report a configuration for a plugin without `Config` that does not read `self.config`.

    Raises:
        ConfigError: the file of `--config` would have no effect. A text of the runtime is only logged.
    """
    plugin_class = type(plugin)
    if reads_attribute(plugin_class, "config"):
        return
    reason = f"{plugin_class.__name__} has no class Config and does not read self.config"
    if file is not None:
        raise ConfigError(file, "", f"the file would have no effect: {reason}", "leave --config out")
    plugin.log.warning("the configuration that the runtime sent has no effect: %s", reason)


def check_flags(plugin_class: type[PluginBase], flag_values: Mapping[str, list[str] | bool]) -> None:
    """Check the flags of a plugin before it is connected.

    Raises:
        ConfigError: with the flag, and the values that it accepts.
    """
    config_class = plugin_class.Config
    if (
        flag_values
        and config_class is not None
        and _simple_values(config_class, plugin_class.flags, flag_values) is None
    ):
        from nri.config.flags import check

        check(config_class, _flag_layers(config_class, plugin_class.flags, flag_values))


def _simple_values(
    config_class: type | None,
    declared_flags: Mapping[str, tuple[str, str, str]],
    flag_values: Mapping[str, list[str] | bool],
) -> dict[str, str | bool] | None:
    """The values of flags if all are strings or switches, which need no validation, else None.

    This avoids importing `nri.config`, which takes 35 ms and 3 MiB.
    """
    if config_class is None or hasattr(config_class, "__post_init__") or not has_all_defaults(config_class):
        return None
    values: dict[str, str | bool] = {}
    for name, flag_value in flag_values.items():
        field = declared_flags[name][0]
        kind = next(_annotations(base)[field] for base in config_class.__mro__ if field in _annotations(base))
        if isinstance(flag_value, bool) and kind in ("bool", bool):
            values[field] = flag_value
        elif not isinstance(flag_value, bool) and kind in ("str", str):
            values[field] = flag_value[-1]
        else:
            return None
    return values


def _annotations(base: type) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = base.__dict__.get("__annotations__", {})
    return annotations


def _flag_layers(
    config_class: type, declared_flags: Mapping[str, tuple[str, str, str]], flag_values: Mapping[str, list[str] | bool]
) -> list[Any]:
    from nri.config.flags import flag_layer

    return [
        flag_layer(config_class, name, declared_flags[name][0], flag_value) for name, flag_value in flag_values.items()
    ]
