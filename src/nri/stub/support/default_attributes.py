"""The attributes of a plugin before it is connected: its default configuration, and an empty mirror.

With these a handler can be called in a test like any method. They are created for each plugin at the first access.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.stub.support.mirror import Mirror


class DefaultConfig:
    """A descriptor for an instance of the plugin's `Config` with its defaults, or "" without such a class."""

    def __get__(self, plugin: Any, owner: type) -> Any:
        """Create the configuration. Raises ConfigError for a key without a default."""
        if plugin is None:
            return self
        config = plugin.config = "" if owner.Config is None else defaults(owner.Config)  # type: ignore[attr-defined]
        return config


class EmptyState:
    """A descriptor for an empty mirror, for plugins with `mirror = True`."""

    def __get__(self, plugin: Any, owner: type) -> Mirror:
        """Create the mirror. Raises AttributeError if the plugin has no mirror."""
        if plugin is None:
            return self  # type: ignore[return-value]  # accessed on the class, for example by help()
        if not plugin.mirror:
            reason = f"{owner.__name__}.state does not exist; set mirror = True in the class to have it"
            raise AttributeError(reason, name=None, obj=None)  # so that Python appends no suggestion
        from nri.stub.support.mirror import Mirror

        mirror = plugin.state = Mirror()
        return mirror


def defaults(config_class: type) -> Any:
    """An instance with the defaults. Lists, dicts and sets are copied from the class attributes.

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
    """Whether every field of the class has a default."""
    return all(
        hasattr(config_class, name)
        for base in config_class.__mro__
        for name in base.__dict__.get("__annotations__", ())
    )
