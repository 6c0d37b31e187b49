"""Apply the rules for registries to image names: mirrors, locations, blocked registries and short names.

There is one set of rules: those of registries.conf, and those of the engine's settings, which replace rules with the
same prefix. skopeo gets all of them in a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from nri.cri.image_names import has_registry
from nri.engine.config import Registry
from nri.engine.config.registries_file import Mirror, RegistriesFile, RegistryRule
from nri.engine.support.errors import InvalidRequest
from nri.errors import ConfigError
from nri.text import cut


class RegistryRules:
    """The rules in force. A rule of `registries` replaces the rule in `file` with the same prefix.

    The constructor raises ConfigError if two rules contradict each other, because skopeo would refuse all rules.
    """

    def __init__(self, registries: Iterable[Registry] = (), file: RegistriesFile | None = None) -> None:
        self._file = file or RegistriesFile()
        self._rules = {**self._file.rules, **{registry.host: _rule(registry) for registry in registries}}
        rule_by_location: dict[str, RegistryRule] = {}
        for rule in self._rules.values():
            other = rule_by_location.setdefault(rule.location or rule.prefix, rule)
            for key in ("insecure", "blocked"):
                if getattr(rule, key) != getattr(other, key):
                    raise ConfigError(
                        "images.registries and images.registries_conf", "",
                        f'"{other.prefix}" and "{rule.prefix}" have one location, but different values of {key}',
                        f"set {key} to the same value for both",
                    )  # fmt: skip

    def rule(self, image: str) -> RegistryRule:
        """Return the rule with the longest prefix of an image's whole name, or a rule that changes nothing.

        Of two prefixes with the same length, skopeo uses the first in alphabetical order.
        """
        rules = [rule for rule in self._rules.values() if _matching_length(image, rule.prefix)]
        host_rule = RegistryRule(image.partition("/")[0])
        return min(rules, key=lambda rule: (-len(rule.prefix), rule.prefix), default=host_rule)

    def endpoints(self, image: str) -> list[str]:
        """Return the names of an image in requests: at the mirrors, then at the registry itself."""
        rule = self.rule(image)
        remainder = image[_matching_length(image, rule.prefix) :]
        registry_name = f"{rule.location}{remainder}" if rule.location else image
        return [*(f"{mirror.location}{remainder}" for mirror in rule.mirrors), registry_name]

    def candidates(self, name: str) -> list[str]:
        """Return the names that a name in a pull stands for, in order. Only a short name stands for other names.

        Raises InvalidRequest if a short name is not allowed or is ambiguous.
        """
        if has_registry(name):
            return [name]
        short, search = without_tag(name), self._file.search
        if short in self._file.aliases:
            return [f"{self._file.aliases[short]}{name[len(short) :]}"]
        if search is None:  # Docker Hub, as in other runtimes for Kubernetes
            return [name]
        advice = "Use a whole name, for example docker.io/library/busybox, or add an alias to registries.conf"
        if not search:
            raise InvalidRequest(f"image {cut(name)}: registries.conf has no registry for short names. {advice}")
        if len(search) > 1 and self._file.mode == "enforcing":
            hosts = ", ".join(search)
            raise InvalidRequest(f"image {cut(name)} can be in several registries ({hosts}). {advice}")
        return [f"{host}/{name}" for host in search]

    def local_names(self, name: str) -> list[str]:
        """Return the names that an image on this node may have if a request names it by `name`, in order."""
        if has_registry(name):
            return [name]
        short = without_tag(name)
        alias = self._file.aliases.get(short)
        names = [f"{alias}{name[len(short) :]}"] if alias else [f"{host}/{name}" for host in self._file.search or ()]
        return [*names, name]

    def conf(self) -> str:
        """Return a registries.conf with all rules, without short names, which the engine resolves."""
        lines = ["unqualified-search-registries = []", 'short-name-mode = "disabled"']
        for rule in self._rules.values():
            lines += ["", "[[registry]]", f"prefix = {json.dumps(rule.prefix)}"]
            lines += [f"location = {json.dumps(rule.location)}"] * bool(rule.location)
            lines += [f"insecure = {json.dumps(rule.insecure)}", f"blocked = {json.dumps(rule.blocked)}"]
            for mirror in rule.mirrors:
                lines += ["[[registry.mirror]]", f"location = {json.dumps(mirror.location)}"]
                lines += [f"insecure = {json.dumps(mirror.insecure)}", f"pull-from-mirror = {json.dumps(mirror.pulls)}"]
        return "\n".join(lines) + "\n"


def _rule(registry: Registry) -> RegistryRule:
    mirrors = tuple(
        Mirror(re.sub(r"^https?://", "", mirror), mirror.startswith("http://")) for mirror in registry.mirrors
    )
    # A rule for the hosts of a domain cannot have the prefix as its location.
    location = registry.location or ("" if registry.host.startswith("*.") else registry.host)
    return RegistryRule(registry.host, location, registry.insecure, registry.blocked, mirrors, registry.certificates)


def _matching_length(image: str, prefix: str) -> int:
    """Return the length of the beginning of `image` that a prefix matches, as skopeo decides; 0 without a match."""
    end = len(prefix)
    if prefix.startswith("*."):
        host = image.partition("/")[0]
        begin = host.find(prefix[1:])
        end = begin + len(prefix) - 1 if begin > 0 else -1
    elif not image.startswith(prefix):
        end = -1
    return end if end > 0 and image[end : end + 1] in ("", ":", "/", "@") else 0


def without_tag(name: str) -> str:
    """Return an image's name without tag and digest."""
    before_digest = name.partition("@")[0]
    head, slash, last = before_digest.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
