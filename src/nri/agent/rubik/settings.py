"""Read rubik's configuration file, as settings of the agent at the start, and as the document of services.

The file is JSON as Go reads it: keys in any case (the exact spelling wins), and null means absent. It has the keys of
the agent, and a block for each enabled service; blocks of disabled services are not read. The module of a service
defines its block, which is found through the row of the service.

The agent does not start with a file that has mistakes; all mistakes are reported together. If a file gets a mistake
while the agent runs, the last good version stays in force. A service that was off at the start stays off, because the
check for conflicts of cgroup files did not include it. Keys for which the agent differs from rubik, for example its
log, become notes.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from nri.agent.profile import Kind
from nri.agent.rubik.service import Node, ServiceRow
from nri.config import Between, Source
from nri.config.complaint import MAX_PROBLEMS, Problem, WrongValue, combined_error, suggest
from nri.config.key_path import Path, path_text
from nri.config.layers import Layer, located_errors
from nri.config.settings import FileLayer
from nri.config.syntax import parse_json
from nri.config.typed import Partial, build, check, fields_of, is_plain
from nri.errors import ConfigError
from nri.kube.shapes import Unread
from nri.text import nearest

#: The kind of rubik's file as a document.
KIND: Final = "RubikConfiguration"
_FEATURES: Final = "agent.enabledFeatures"
#: The agent's log level for each level of rubik.
_LEVELS: Final = {"": "info", "debug": "debug", "info": "info", "warn": "warning", "error": "error", "stack": "debug"}
#: Keys of rubik's old format (openEuler 22.03-SP1) and their replacements. Keys that identify the format come first.
_OLD_KEYS: Final = {
    "cacheConfig": 'rename it to "dynCache", and add "dynCache" to agent.enabledFeatures',
    "blkioConfig": 'add "ioLimit" to agent.enabledFeatures instead',
    "memoryConfig": 'use "dynMemory": {"policy": "fssr"}, and add "dynMemory" to agent.enabledFeatures',
    "nodeConfig": 'rename it to "ioCost", and add "ioCost" to agent.enabledFeatures',
    "autoCheck": 'remove it, and add "preemption" to agent.enabledFeatures',
    "autoConfig": 'remove it, and add "preemption" to agent.enabledFeatures',
    **dict.fromkeys(("logDriver", "logDir", "logSize", "logLevel", "cgroupRoot"), 'move it into "agent"'),
}
_CGROUPS: Final = "/sys/fs/cgroup"
_NODE_NAME: Final = "RUBIK_NODE_NAME"
_DOCUMENT: Final = Source("", "", "json")


@dataclass(frozen=True, slots=True)
class Agent:
    """The keys of the agent in rubik's file. `complain` checks their values."""

    logDriver: str = "stdio"
    logDir: str = "/var/log/rubik"
    logSize: Annotated[int, Between(-(2**63), 2**63 - 1)] = 1024
    logLevel: str = "info"
    cgroupRoot: str = "/sys/fs/cgroup"
    cgroupDriver: str = "cgroupfs"
    informerType: str = "apiserver"
    enabledFeatures: list[str] | None = None

    def complain(self) -> None:
        """Raise WrongValue if a value is not allowed."""
        for key, words in _VALUES_BY_KEY.items():
            if getattr(self, key) not in words:
                raise WrongValue(
                    key, f'"{getattr(self, key)}" is not one of {", ".join(filter(None, words))}', "use one"
                )
        if not 10 <= self.logSize <= 1 << 20:
            raise WrongValue("logSize", f"{self.logSize} MB is not between 10 and {1 << 20}", "1024 is the default")
        if self.logDriver == "file" and not self.logDir.startswith("/"):
            raise WrongValue("logDir", f'"{self.logDir}" must be an absolute path', "begin it with /")


_VALUES_BY_KEY: Final[Mapping[str, tuple[str, ...]]] = {
    "logDriver": ("", "stdio", "file"),
    "logLevel": ("", "debug", "info", "warn", "error", "stack"),
    "cgroupDriver": ("cgroupfs", "systemd"),
    "informerType": ("apiserver", "nri"),
}


class File(NamedTuple):
    """A file: the agent's keys, the unparsed blocks, and the keys without effect."""

    source: Source
    agent: Agent
    blocks: Mapping[str, Any]
    unread: list[Unread]


class Reader:
    """A reader of rubik's file.

    Args:
        rows: the services.
    """

    def __init__(self, rows: Iterable[ServiceRow]) -> None:
        self._rows = {row.name: row for row in rows}

    def read(self, tree: Any, source: Source) -> File:
        """Read the keys of the agent; `services` reads the blocks. Raises ConfigError if a key has a mistake."""
        if not isinstance(tree, dict):
            raise ConfigError(source.name, "", "is not a JSON object", 'use {"agent": {...}}')
        keys = ("agent", *self._rows)
        unread = [Unread.of(key, nearest(key, keys)) for key in tree if key not in keys]
        agent = _typed_value(Agent, {} if tree.get("agent") is None else tree["agent"], "agent", source, unread)
        return File(source, agent, {key: value for key, value in tree.items() if key != "agent"}, unread)

    def services(self, file: File) -> dict[str, Any]:
        """Read the blocks of the enabled services, by name; None for a service without a block.

        Raises ConfigError if there are mistakes; `others` of the first error has the other errors.
        """
        blocks: dict[str, Any] = {}
        errors: list[ConfigError] = []
        problems: list[Problem] = []
        for place, name in enumerate(file.agent.enabledFeatures or ()):
            path: Path = ("agent", "enabledFeatures", place)
            if name not in self._rows:
                problems.append(Problem(path, f'"{name}" is not a service', suggest(name, self._rows)))
            elif name in blocks:
                problems.append(Problem(path, f'"{name}" is listed twice', "list it once"))
            else:
                blocks[name] = None
                try:
                    if self._rows[name].block is not None:
                        blocks[name] = self._block(name, file)
                except ConfigError as error:
                    errors.append(error)
        if errors or problems:
            raise combined_error([*located_errors(file.source, problems), *errors])
        return blocks

    def _block(self, name: str, file: File) -> Any:
        value = file.blocks.get(name)
        if value is None:
            raise ConfigError(file.source.name, name, "is switched on but has no block", f'add "{name}": {{...}}')
        return _typed_value(self._rows[name].block, value, name, file.source, file.unread)

    def blocks(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the blocks of a document. Raises ConfigError, with all mistakes, if the document has mistakes."""
        return self._checked_blocks(self.read(document, _DOCUMENT))

    def _checked_blocks(self, file: File) -> dict[str, Any]:
        """Return the blocks of a file.

        Raises ConfigError, with all mistakes, if the agent's keys or blocks have mistakes.
        """
        errors: list[ConfigError] = []
        blocks: dict[str, Any] = {}
        try:
            file.agent.complain()
        except WrongValue as error:
            errors += located_errors(file.source, [Problem(("agent", error.key), error.reason, error.suggestion)])
        try:
            blocks = self.services(file)
        except ConfigError as error:
            errors.append(error)
        problems = [
            problem._replace(path=(name, *problem.path))
            for name, block in blocks.items()
            if block is not None
            for problem in self._rows[name].problems(block)
        ]
        if errors or problems:
            raise combined_error([*errors, *located_errors(file.source, problems)])
        return blocks

    def kind(self) -> Kind:
        """Return the kind of rubik's file, which is recognized by its key `agent`."""
        return Kind(self._parse, {}, None, _with_services, self._unread_keys, "agent", in_api=False)

    def _parse(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return self.blocks(document)
        except ConfigError as error:
            raise ValueError(_line(error)) from None

    def _unread_keys(self, document: Mapping[str, Any]) -> Sequence[Unread]:
        file = self.read(document, _DOCUMENT)
        self.services(file)
        return file.unread[:MAX_PROBLEMS]

    def features(self, document: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the services that a document switches on, each with its key."""
        agent = (document or {}).get("agent")
        features = agent.get("enabledFeatures") if isinstance(agent, dict) else None
        names = enumerate(features if isinstance(features, list) else ())
        return {name: f"{_FEATURES}[{place}]" for place, name in names if name in self._rows}

    def layer(self, source: Source) -> FileLayer | None:
        """Return rubik's configuration file as settings of the agent, or None for a file of another program."""
        odd: list[str] = []  # for example NaN, which the agent's own settings may contain
        try:
            tree = parse_json(source.text, parse_constant=odd.append)
        except ValueError:
            return None  # the next reader reports the position of the mistake
        if not isinstance(tree, dict):
            return None
        if "agent" not in tree:
            if problem := self._without_agent(tree):
                raise located_errors(source, [problem])[0]
            return None
        if odd:
            raise ConfigError(source.name, "", f"contains {odd[0]}, which is not valid JSON")
        file = self.read(tree, source)
        services = self._checked_blocks(file)
        notes = [f"{source.name}: {note}" for note in _without_effect(file.agent)]
        return FileLayer(Layer(_settings(file.agent, services, source.name), lambda _: source.name), notes)

    def _without_agent(self, tree: Mapping[str, Any]) -> Problem | None:
        """Return the mistake in a file of rubik without the key `agent`, or None if it belongs to another program."""
        for key, value in tree.items():
            if isinstance(value, dict) and "enabledFeatures" in value:
                return Problem((key,), "unknown key", 'did you mean "agent"?')
        for key, advice in _OLD_KEYS.items():
            if key in tree:
                return Problem((key,), "is a key of rubik's old configuration format, before rubik 2.0", advice)
        block = next((key for key in tree if key in self._rows), None)
        if block is None:
            return None
        advice = f'add "agent": {{"enabledFeatures": ["{block}"]}}'
        return Problem((block,), 'is a block of rubik\'s file, which has no key "agent"', advice)


def _with_services(node: Node, services: Mapping[str, Any] | None) -> Node:
    return node if services is None else replace(node, services=services)


def _line(error: ConfigError) -> str:
    """Return a mistake on one line, with the number of other mistakes."""
    more = f"; and {len(error.others)} more" if error.others else ""
    hint = f"; {error.suggestion}" if error.suggestion else ""
    return f"{error.key}: {error.reason}{hint}{more}"


def _settings(agent: Agent, services: Iterable[str], name: str) -> dict[str, Any]:
    """Return the agent's settings from the keys of a file with this name."""
    by_nri = agent.informerType == "nri"
    rules = {"source": "files", "path": name}
    if os.environ.get(_NODE_NAME):
        rules["node_name"] = os.environ[_NODE_NAME]
    settings: dict[str, Any] = {
        "profile": "rubik",
        "modes": ["nri", "standalone"] if by_nri else ["standalone"],
        "log_level": _LEVELS[agent.logLevel],
        "rules": rules,
        "pods": {"source": "nri" if by_nri else "apiserver"},
        "standalone": {"cgroup_driver": agent.cgroupDriver},
        "gates": dict.fromkeys(services, True),
    }
    root = agent.cgroupRoot.removesuffix(_CGROUPS)
    return settings | ({"root": root} if root != agent.cgroupRoot and root else {})


def _without_effect(agent: Agent) -> list[str]:
    notes = []
    if agent.logDriver == "file":
        notes.append("agent.logDriver: without effect, because the agent logs to standard error")
    if not agent.cgroupRoot.rstrip("/").endswith(_CGROUPS):
        notes.append(f"agent.cgroupRoot: without effect, because it does not end with {_CGROUPS}; set root instead")
    return notes


def _typed_value(annotation: Any, value: Any, key: str, source: Source, unread: list[Unread]) -> Any:
    """Convert the value of a top-level key to its type. Raises ConfigError, with all mistakes, if that fails."""
    problems: list[Problem] = []
    top = type("Top", (), {"__annotations__": {key: annotation}})
    built = check(top, _normalized_tree(top, {key: value}, (), unread), (), problems).values[key]
    if isinstance(built, Partial):
        built = build(built, (key,), problems)
    if problems:
        raise combined_error(located_errors(source, problems))
    return built


def _normalized_tree(cls: type, tree: Any, path: Path, unread: list[Unread]) -> Any:
    """Return the tree with the spelling of a class's fields, without nulls and unknown keys."""
    if not isinstance(tree, dict):
        return tree
    fields = fields_of(cls)
    names = {name.casefold(): name for name in fields}
    folded = {}
    for key, value in sorted(tree.items()):  # the spelling with small letters comes last
        name = key if key in fields else names.get(key.casefold())
        if name is None:
            unread.append(Unread.of(path_text((*path, key)), nearest(key, fields)))
        elif value is not None:
            folded[name] = _folded_value(fields[name], value, (*path, key), unread)
    return folded


def _folded_value(annotation: Any, value: Any, path: Path, unread: list[Unread]) -> Any:
    """Return the value of a field, with the spelling of the fields of nested classes."""
    if is_plain(annotation):
        return _normalized_tree(annotation, value, path, unread)
    types = typing.get_args(annotation)
    if typing.get_origin(annotation) is list and is_plain(types[0]) and isinstance(value, list):
        items = (item if item is not None else {} for item in value)
        return [_normalized_tree(types[0], item, (*path, place), unread) for place, item in enumerate(items)]
    return value
