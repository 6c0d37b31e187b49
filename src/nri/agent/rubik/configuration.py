"""rubik's configuration file: as settings of the agent when it starts, and as the document that its services go by.

Rules: a file with a mistake never starts an agent, and every mistake is named at once; one that changes while an agent
runs and has a mistake changes nothing. A service that the file did not switch on at the start stays off, because who
sets which knob was found out by that. Keys with which rubik does something else, such as its log, become notes. Next:
`nri.agent.rubik.pods`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nri.agent.profile import Kind
from nri.agent.rubik.decisions import settings
from nri.agent.rubik.decisions.io_cost import mistakes
from nri.config import Source
from nri.config.complaint import MOST_PROBLEMS, Problem, WrongValue, together
from nri.config.layers import Layer, located
from nri.config.settings import FileLayer
from nri.config.syntax import parse_json
from nri.errors import ConfigError
from nri.policies.shapes import Unread

__all__ = ["KIND", "RUBIK_FILE", "Node", "Services", "asked", "read_settings"]

#: The kind of the document that rubik's file is.
KIND: Final = "RubikConfiguration"
_FEATURES: Final = "agent.enabledFeatures"
#: The agent's word for each of rubik's levels.
_LEVELS: Final = {"": "info", "debug": "debug", "info": "info", "warn": "warning", "error": "error", "stack": "debug"}
#: The keys of rubik's old format, as openEuler 22.03-SP1 has it, and what to write now; the most telling ones first.
_OLD_KEYS: Final = {
    "cacheConfig": 'write it as "dynCache", and "dynCache" in agent.enabledFeatures',
    "blkioConfig": 'write "ioLimit" in agent.enabledFeatures',
    "memoryConfig": 'write "dynMemory": {"policy": "fssr"}, and "dynMemory" in agent.enabledFeatures',
    "nodeConfig": 'write it as "ioCost", and "ioCost" in agent.enabledFeatures',
    "autoCheck": 'leave it out; write "preemption" in agent.enabledFeatures',
    "autoConfig": 'leave it out; write "preemption" in agent.enabledFeatures',
    **dict.fromkeys(("logDriver", "logDir", "logSize", "logLevel", "cgroupRoot"), 'write it below "agent"'),
}
_CGROUPS: Final = "/sys/fs/cgroup"
_NODE_NAME: Final = "RUBIK_NODE_NAME"


@dataclass(frozen=True, slots=True)
class Node:
    """The rules of a node.

    Attributes:
        services: those that the file switches on, each with its block; None for one that has none.
        switched_on: what the settings switch on.
        stages_off: the stages at which no hook decides.
        fail: whether the first hook that fails fails the request.
        lacks: why the kernel has not a knob; "" if it has it.
        disk: the numbers of the block device at a path of the machine, such as `8:0`; "" if there is none.
        cpus: how many the machine has.
        writeback: whether the kernel counts pages that are written later for the pod that wrote them, on cgroup v1.
        in_force: by service the knobs that its last round has given to all offline pods.
    """

    services: Mapping[str, Any] = field(default_factory=dict)
    lacks: Callable[[str], str] = lambda _knob: "this is no machine"
    disk: Callable[[str], str] = lambda _path: ""
    cpus: Callable[[], int] = lambda: 0
    writeback: Callable[[], bool] = lambda: False
    in_force: dict[str, Mapping[str, int]] = field(default_factory=dict)
    switched_on: frozenset[str] = frozenset()
    stages_off: frozenset[str] = frozenset()
    fail: bool = False

    def has(self, knob: str) -> bool:
        """Whether the kernel has a knob."""
        return not self.lacks(knob)

    @property
    def gates(self) -> frozenset[str]:
        """The services that are on."""
        return self.switched_on & self.services.keys()

    @property
    def keeps_partial(self) -> bool:
        """Whether what a hook had decided until it failed is applied: never."""
        return False


class Services:
    """The services that the file switches on, with their blocks, for strategies.

    Attributes:
        blocks: by the service's name; None for one that has none.
    """

    kind = KIND

    def __init__(self) -> None:
        self.known = False
        self.blocks: Mapping[str, Any] = {}
        self.errors: list[str] = []
        self._taken: Mapping[str, Any] | None = None

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the file; None switches everything off."""
        if document is self._taken and document is not None:
            return
        self._taken = document
        if document is None:
            self.blocks = {}
            return
        self.known = True
        try:
            self.blocks, self.errors = _services(document), []
        except ConfigError as error:  # the store has refused it before
            self.errors = [str(error)]


def _parse(document: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return _services(document)
    except ConfigError as error:
        raise ValueError(_line(error)) from None


def read_settings(source: Source) -> FileLayer | None:
    """Read a configuration file of rubik's as settings of the agent; None for a file of another program."""
    odd: list[str] = []  # NaN and the like, which the agent's own settings may have
    try:
        tree = parse_json(source.text, parse_constant=odd.append)
    except ValueError:
        return None  # whoever reads it next says where it is no JSON
    if not isinstance(tree, dict):
        return None
    if "agent" not in tree:
        if problem := _without_agent(tree):
            raise located(source, [problem])[0]
        return None
    if odd:
        raise ConfigError(source.name, "", f"holds {odd[0]}, which JSON does not have")
    file = settings.read(tree, source)
    services = _complete(file, source)
    notes = [f"{source.name}: {note}" for note in _without_effect(file.agent)]
    return FileLayer(Layer(_settings(file, services, source.name), lambda _: source.name), notes)


def _without_agent(tree: Mapping[str, Any]) -> Problem | None:
    """What is wrong with a file of rubik's that has no key `agent`; None for a file of another program."""
    for key, value in tree.items():
        if isinstance(value, dict) and "enabledFeatures" in value:
            return Problem((key,), "unknown key", 'did you mean "agent"?')
    for key, advice in _OLD_KEYS.items():
        if key in tree:
            return Problem((key,), "is a key of rubik's old configuration format, before rubik 2.0", advice)
    block = next((key for key in tree if key in settings.FEATURES), None)
    advice = f'add "agent": {{"enabledFeatures": ["{block}"]}}'
    return None if block is None else Problem((block,), 'is a block of rubik\'s file, which has no key "agent"', advice)


def asked(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the services that a file switches on, each with its key."""
    agent = (document or {}).get("agent")
    listed = agent.get("enabledFeatures") if isinstance(agent, dict) else None
    names = enumerate(listed if isinstance(listed, list) else ())
    return {name: f"{_FEATURES}[{place}]" for place, name in names if name in settings.FEATURES}


def _complete(file: settings.File, source: Source) -> dict[str, Any]:
    """The services of a file, whose agent's keys are looked at as well. Raises ConfigError with all mistakes."""
    errors: list[ConfigError] = []
    try:
        file.agent.complain()
    except WrongValue as error:
        errors += located(source, [Problem(("agent", error.key), error.reason, error.suggestion)])
    try:
        found = settings.services(file)
    except ConfigError as error:
        errors.append(error)
        found = {}
    problems = [
        wrong._replace(path=("ioCost", node, "config", place, *wrong.path))
        for node, each in enumerate(found.get("ioCost") or ())
        for place, device in enumerate(each.config)
        for wrong in mistakes(device)
    ]
    if errors or problems:
        raise together([*errors, *located(source, problems)])
    return found


def _services(document: Mapping[str, Any]) -> dict[str, Any]:
    source = Source("", "", "json")
    return _complete(settings.read(document, source), source)


def _unread(document: Mapping[str, Any]) -> list[Unread]:
    file = settings.read(document, Source("", "", "json"))
    settings.services(file)
    return file.unread[:MOST_PROBLEMS]


def _into(node: Node, services: Mapping[str, Any] | None) -> Node:
    return node if services is None else replace(node, services=services)


def _line(error: ConfigError) -> str:
    """A mistake on one line, and how many others there are."""
    more = f"; and {len(error.others)} more" if error.others else ""
    hint = f"; {error.suggestion}" if error.suggestion else ""
    return f"{error.key}: {error.reason}{hint}{more}"


def _settings(file: settings.File, services: Iterable[str], name: str) -> dict[str, Any]:
    """The agent's settings that a file says."""
    agent = file.agent
    by_nri = agent.informerType == "nri"
    rules = {"source": "files", "path": name}
    if os.environ.get(_NODE_NAME):
        rules["node_name"] = os.environ[_NODE_NAME]
    found: dict[str, Any] = {
        "profile": "rubik",
        "modes": ["nri", "standalone"] if by_nri else ["standalone"],
        "log_level": _LEVELS[agent.logLevel],
        "rules": rules,
        "pods": {"source": "nri" if by_nri else "apiserver"},
        "standalone": {"cgroup_driver": agent.cgroupDriver},
        "gates": dict.fromkeys(services, True),
    }
    root = agent.cgroupRoot.removesuffix(_CGROUPS)
    return found | ({"root": root} if root != agent.cgroupRoot and root else {})


def _without_effect(agent: settings.Agent) -> list[str]:
    found = []
    if agent.logDriver == "file":
        found.append("agent.logDriver: without effect, for this agent logs to standard error")
    if not agent.cgroupRoot.rstrip("/").endswith(_CGROUPS):
        found.append(f"agent.cgroupRoot: without effect, for it does not end with {_CGROUPS}: say root instead")
    return found


#: The kind of rubik's file, which is known by its key `agent`.
RUBIK_FILE: Final = Kind(_parse, {}, None, _into, _unread, "agent")
