"""Read registries.conf, the file of podman, skopeo and CRI-O with registries, mirrors and short names.

Source: containers-registries.conf(5), version 2. Unknown keys are ignored, as podman does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from nri.config import Source, read_file
from nri.config.key_path import Path as KeyPath
from nri.config.key_path import path_text
from nri.config.layers import Layer, parse_layer
from nri.cri.image_names import has_registry, parse_reference
from nri.errors import ConfigError

#: The maximum number of drop-in files, and of tables and aliases in all files together.
_MAX_FILES, _MAX_ENTRIES = 256, 10_000
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_PULLS = ("all", "digest-only", "tag-only")
_MODES = ("enforcing", "permissive", "disabled")
#: The beginning of an image name: registry and path, with a tag or digest if it is a whole name.
_LOCATION = re.compile(r"[\w.\[\]-][\w.\[\]:-]*(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", re.ASCII)
_KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "a table"}

T = TypeVar("T")


class Mirror(NamedTuple):
    """A mirror of a registry. `pulls` limits the names for which the mirror is used: all, digest-only, tag-only."""

    location: str
    insecure: bool = False
    pulls: str = "all"


class RegistryRule(NamedTuple):
    """What applies to the images whose names begin with a prefix.

    Attributes:
        prefix: a registry, a registry with a path, or ``*.DOMAIN``.
        location: what replaces the prefix in requests; "" for the prefix itself.
        certificates: a folder with certificates; "" for the CAs of this machine.
    """

    prefix: str
    location: str = ""
    insecure: bool = False
    blocked: bool = False
    mirrors: tuple[Mirror, ...] = ()
    certificates: str = ""


class RegistriesFile(NamedTuple):
    """The content of a registries.conf and its drop-in files.

    Attributes:
        search: the registries of short names; None if the files do not set them.
        aliases: whole names by short name.
    """

    rules: Mapping[str, RegistryRule] = MappingProxyType({})
    search: tuple[str, ...] | None = None
    mode: str = "permissive"
    aliases: Mapping[str, str] = _NO_ALIASES


def read_registries(path: str) -> RegistriesFile:
    """Read a registries.conf and the files ``*.conf`` in the folder PATH.d, in the order of their names.

    A later file replaces rules with the same prefix, aliases of the same name, and other keys. Raises ConfigError if a
    file is invalid.
    """
    folder = Path(f"{path}.d")
    try:
        drop_ins = sorted(name for name in os.listdir(folder) if name.endswith(".conf"))
    except FileNotFoundError:
        drop_ins = []
    except OSError as error:
        raise ConfigError(str(folder), "", f"cannot be read: {error.strerror}") from None
    if len(drop_ins) > _MAX_FILES:
        raise ConfigError(str(folder), "", f"{len(drop_ins)} files; at most {_MAX_FILES} are read")
    total = RegistriesFile()
    for name in (path, *(str(folder / name) for name in drop_ins)):
        total = _merged_files(total, _File(name).content())
        if len(total.rules) + len(total.aliases) > _MAX_ENTRIES:
            raise ConfigError(name, "", f"more than {_MAX_ENTRIES} registries and aliases in all files")
    return total


def _merged_files(first: RegistriesFile, second: RegistriesFile) -> RegistriesFile:
    aliases = {**first.aliases, **second.aliases}
    return RegistriesFile(
        {**first.rules, **second.rules},
        first.search if second.search is None else second.search,
        second.mode or first.mode,
        {name: target for name, target in aliases.items() if target},  # an empty target removes an alias
    )


class _File:
    """One file, and the locations of its keys for errors."""

    def __init__(self, name: str) -> None:
        self._layer: Layer = parse_layer(Source(name, read_file(name).text, "toml"))

    def content(self) -> RegistriesFile:
        """Return the content. `mode` is "" and `search` is None if the file does not set them."""
        tree = self._layer.tree
        if "registries" in tree:
            raise self._error(("registries",), "the format of version 1 is not supported", "write [[registry]] tables")
        rules: dict[str, RegistryRule] = {}
        for index, table in enumerate(self._get(tree, ("registry",), list, [])):
            rule = self._rule(table, ("registry", index))
            if rule.prefix in rules:
                raise self._error(("registry", index), f'the prefix "{rule.prefix}" has a table already')
            rules[rule.prefix] = rule
        search = None
        if (key := "unqualified-search-registries") in tree:
            hosts = self._get(tree, (key,), list, [])
            search = tuple(self._location(host, (key, index)) for index, host in enumerate(hosts))
        mode = self._choice(tree, ("short-name-mode",), "", _MODES)
        return RegistriesFile(rules, search, mode, self._aliases(self._get(tree, ("aliases",), dict, {})))

    def _rule(self, table: Any, path: KeyPath) -> RegistryRule:
        self._check_kind(table, path, dict)
        prefix = self._get(table, (*path, "prefix"), str, "")
        location = self._get(table, (*path, "location"), str, "")
        is_wildcard = prefix.startswith("*.")
        if not (location or is_wildcard):
            raise self._error(path, "location is required, unless the prefix begins with *.")
        digest_only = self._get(table, (*path, "mirror-by-digest-only"), bool, False)
        mirrors = self._get(table, (*path, "mirror"), list, [])
        return RegistryRule(
            f"*.{self._location(prefix[2:], (*path, 'prefix'))}"
            if is_wildcard
            else self._location(prefix or location, (*path, "prefix" if prefix else "location")),
            self._location(location, (*path, "location")) if location else "",
            self._get(table, (*path, "insecure"), bool, False),
            self._get(table, (*path, "blocked"), bool, False),
            tuple(self._mirror(mirror, (*path, "mirror", index), digest_only) for index, mirror in enumerate(mirrors)),
        )

    def _mirror(self, table: Any, path: KeyPath, digest_only: bool) -> Mirror:
        self._check_kind(table, path, dict)
        pulls = self._choice(table, (*path, "pull-from-mirror"), "", _PULLS)
        if pulls and digest_only:
            raise self._error((*path, "pull-from-mirror"), "contradicts mirror-by-digest-only of the registry")
        location = self._location(self._get(table, (*path, "location"), str, ""), (*path, "location"))
        insecure = self._get(table, (*path, "insecure"), bool, False)
        return Mirror(location, insecure, pulls or ("digest-only" if digest_only else "all"))

    def _aliases(self, table: Mapping[str, Any]) -> dict[str, str]:
        for name, target in table.items():
            path: KeyPath = ("aliases", name)
            self._check_kind(target, path, str)
            try:
                if has_registry(name) or ":" in name or "@" in name:
                    raise ValueError("the name must have neither a registry nor a tag")
                parse_reference(name)
                if target and (not has_registry(target) or str(parse_reference(target)) != f"{target}:latest"):
                    raise ValueError("the target must be a registry and a repository, without a tag or digest")
            except ValueError as error:
                raise self._error(path, str(error), 'for example "app" = "registry.example/team/app"') from None
        return dict(table)

    # --- values ---

    def _get(self, table: Mapping[str, Any], path: KeyPath, kind: type[T], default: T) -> T:
        value = table.get(str(path[-1]), default)
        self._check_kind(value, path, kind)
        return cast(T, value)

    def _choice(self, table: Mapping[str, Any], path: KeyPath, default: str, choices: tuple[str, ...]) -> str:
        value = self._get(table, path, str, default)
        if value not in ("", *choices):
            raise self._error(path, f'"{value}" must be one of {", ".join(choices)}')
        return value

    def _location(self, value: Any, path: KeyPath) -> str:
        """Check a registry, or a registry with a path, and return it without a slash at the end."""
        self._check_kind(value, path, str)
        text = str(value).rstrip("/")
        if "://" in text:
            raise self._error(path, f'"{text}" must not begin with a scheme', "write insecure = true for plain HTTP")
        if not _LOCATION.fullmatch(text):
            raise self._error(path, f'"{text}" is not a registry', "for example registry.example:5000/team")
        return text

    def _check_kind(self, value: Any, path: KeyPath, kind: type) -> None:
        if type(value) is not kind:
            raise self._error(path, f"must be {_KINDS[kind]}")

    def _error(self, path: KeyPath, reason: str, step: str = "") -> ConfigError:
        return ConfigError(self._layer.place(path), path_text(path), reason, step)
