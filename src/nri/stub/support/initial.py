"""The attributes of a plugin before any runtime is there: its configuration by default, and an empty mirror.

One job: the two attributes that a session sets when it begins, as they are until then, so that a handler can be called
in a test like any method. Both are made when they are first looked at, for each plugin again. Next: `nri.stub.base` has
them, `nri.stub.session.settings` sets the configuration.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.stub.support.mirror import Mirror

__all__ = ["DefaultConfig", "EmptyState", "defaults", "has_all_defaults"]


class DefaultConfig:
    """Attribute that is an instance of the plugin's `Config` with its defaults; "" without such a class."""

    def __get__(self, plugin: Any, owner: type) -> Any:
        """Make the configuration. ConfigError if there is a key without a default."""
        if plugin is None:
            return self
        made = plugin.config = "" if owner.Config is None else defaults(owner.Config)  # type: ignore[attr-defined]
        return made


class EmptyState:
    """Attribute that is an empty mirror, for plugins that have one."""

    def __get__(self, plugin: Any, owner: type) -> Mirror:
        """Make the mirror. AttributeError if the plugin keeps no mirror."""
        if plugin is None:
            return self  # type: ignore[return-value]  # asked of the class, by help() and the like
        if not plugin.mirror:
            raise AttributeError(f"{owner.__name__}.state: there is none; write mirror = True in the class to keep it")
        from nri.stub.support.mirror import Mirror

        made = plugin.state = Mirror()
        return made


def defaults(config_class: type) -> Any:
    """An instance with the defaults: lists, dicts and sets among the class attributes are not shared.

    Raises:
        ConfigError: a key has no default.
    """
    if not has_all_defaults(config_class):
        from nri.config import read

        return read(config_class, [])
    instance = config_class()
    for base in reversed(config_class.__mro__[:-1]):
        for name in base.__dict__.get("__annotations__", ()):
            value = getattr(config_class, name)
            if isinstance(value, (list, dict, set)):
                setattr(instance, name, value.copy())
    return instance


def has_all_defaults(config_class: type) -> bool:
    """Whether an instance can be made of nothing."""
    return all(
        hasattr(config_class, name)
        for base in config_class.__mro__
        for name in base.__dict__.get("__annotations__", ())
    )
