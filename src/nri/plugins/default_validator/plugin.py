"""`default-validator`: refuse containers because of changes by plugins, or because a required plugin is missing.

It is for runtimes without a built-in validator, or with a validator that cannot be configured. The default of `enable`
is true.
"""

from __future__ import annotations

import re
from dataclasses import replace

import nri
from nri.api.annotations import REQUIRED_PLUGINS
from nri.api.default_validator import KEYS, DefaultValidator, ValidatorConfig
from nri.config import Source, parse_text
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

#: TOML begins with `key =`, after comments; YAML has a colon instead.
TOML = re.compile(r"(?:\s*#.*\n)*\s*[\w-]+\s*=")


class DefaultValidatorPlugin(nri.Plugin):
    """Refuse containers by rules on hooks, seccomp, namespaces, sysctls and required plugins."""

    name = "default-validator"
    sets = ()
    annotations: ClassVar[Mapping[str, str]] = {
        REQUIRED_PLUGINS: "list of plugins without which the container is not created"
    }

    def __init__(self) -> None:
        self._validator = DefaultValidator(ValidatorConfig(enable=True))

    def configure(self) -> None:
        config = read(self.config)
        self._validator = DefaultValidator(config)
        checks = sorted({name for name in KEYS.values() if name != "enable" and getattr(config, name)})
        state = "checks" if config.enable else "disabled"
        self.log.info("%s: %s", state, ", ".join(checks) or "plugins that pods require")

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        if not self._validator.config.enable:
            return
        reason = self._validator.validate(request.message)
        if reason is not None:
            raise nri.Reject(reason)


def read(text: str) -> ValidatorConfig:
    """Read the configuration, as YAML, JSON or TOML, with keys of any dialect. Raises ConfigError if invalid."""
    source = Source("default validator", text, "toml" if TOML.match(text) else "auto")
    tree = parse_text(source)
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError(
            source.name,
            "",
            "expected a mapping of keys to values",
            "write, for example, 'rejectSysctlAdjustment: true'",
        )
    config = ValidatorConfig.from_dict(tree, source.name)
    return config if any(KEYS[key] == "enable" for key in tree) else replace(config, enable=True)


if __name__ == "__main__":
    DefaultValidatorPlugin.main()
