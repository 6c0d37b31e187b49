"""Draw cases: any operation, any plugins, any fields, from the API's descriptors.

`draw_case` takes every decision from one `random.Random`, so the same code is driven by a seed or by Hypothesis. A
case is either tame, in the manner of the recorded ones, or wild; each has its own density, so that some cases set a
field or two and some nearly all. Next: `peace`.
"""

from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nri.api import messages as m
from tests.differential.peace import settle
from tests.differential.vocabulary import (
    ERRORS,
    KEYS,
    MAP_KEYS,
    PLAIN,
    PLUGINS,
    TAME,
    TEXTS,
    WILD,
    WILD_ENV,
    WILD_KEYS,
    WILD_PLUGINS,
)

Case = dict[str, Any]

_TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
#: Fields on the way to most others: drawn more often than the case's density says.
_TRUNKS = frozenset({"linux", "resources", "memory", "cpu", "value"})
_FOCI = sorted(
    {
        field.name
        for kind in (m.ContainerAdjustment, m.LinuxContainerAdjustment, m.LinuxResources)
        for field in kind.DESCRIPTOR.fields
    }
    - _TRUNKS
    | {"cpus", "limit"}
)
#: Fields that have to be there for the message to mean anything.
_NAMES = frozenset({"key", "destination", "path", "type", "page_size", "name"})


def _full(field: FieldDescriptor) -> str:
    assert field.containing_type is not None
    return f"{field.containing_type.name}.{field.name}"


class Draw:
    """One case in the making."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.wild = random.random() < 0.4
        self.density = random.choice((0.03, 0.08, 0.15, 0.3, 0.6))
        self.marks = random.choice((0.0, 0.25, 0.5))
        #: Fields that all plugins of the case are busy with; empty: no such field.
        self.focus = random.sample(_FOCI, random.randrange(1, 4)) if random.random() < 0.4 else []
        if self.focus:
            self.density = 0.02
        self.in_adjustment = False

    def chance(self, probability: float) -> bool:
        return self.random.random() >= 1 - probability  # so that zeros draw a small case

    def one(self, values: Any) -> Any:
        return values[self.random.randrange(len(values))]

    def message(self, descriptor: Descriptor, density: float | None = None) -> Any:
        """Protobuf JSON of a message with some of its fields."""
        filled: dict[str, Any] = {}
        density = self.density if density is None else density
        for field in descriptor.fields:
            if not self.chance(self._probability(field, density)):
                continue
            filled[field.name] = self._field(field)
        return filled

    def _probability(self, field: FieldDescriptor, density: float) -> float:
        if field.name in _TRUNKS:
            return 0.8
        if field.name in self.focus:
            return 0.85
        if field.name in _NAMES and _full(field) in KEYS:
            return 0.97 if self.wild else 1.0
        return density

    def _field(self, field: FieldDescriptor) -> Any:
        name = _full(field)
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            value = kind.fields_by_name["value"]
            return {
                self._marked(name, self._map_key(name)): self._value(value, name) for _ in range(self._count(limit=3))
            }
        if field.is_repeated:
            return [self._value(field, name) for _ in range(self._count(limit=4))]
        return self._value(field, name)

    def _count(self, limit: int) -> int:
        return 0 if self.chance(0.04) else 1 + self.random.randrange(limit)

    def _map_key(self, name: str) -> str:
        return str(self.one(WILD_KEYS if self.wild and self.chance(0.5) else MAP_KEYS.get(name, TEXTS)))

    def _marked(self, name: str, key: str) -> str:
        if name not in KEYS:
            return key
        likely = self.marks if self.in_adjustment else self.marks / 10
        return "-" + key if likely and self.chance(likely) else key

    def _value(self, field: FieldDescriptor, name: str) -> Any:
        if field.message_type is not None:
            # Inside of list elements and values nothing is merged: some of the fields make a good element.
            dense = field.is_repeated or field.name in self.focus
            return self.message(field.message_type, max(self.density, 0.35) if dense else None)
        if field.enum_type is not None:
            return 99 if self.wild and self.chance(0.02) else self.one(field.enum_type.values).name
        kind = _TYPES[field.type]
        if self.wild and self.chance(0.5):
            if name == "Container.env":
                return self.one(WILD_ENV)
            return self.one(WILD_KEYS if name in KEYS else WILD[kind])
        value = self.one(TAME.get(name) or PLAIN[kind])
        return self._marked(name, value) if name in KEYS else value

    def updates(self, targets: tuple[str, ...], limit: int) -> list[Any]:
        """What a plugin asks for other containers, and for this one."""
        drawn = []
        for _ in range(1 + self.random.randrange(limit)):
            update: dict[str, Any] = {}
            if not self.wild or self.chance(0.97):
                update["container_id"] = self.one(targets)
            if self.chance(0.9):
                update["linux"] = {"resources": self.message(m.LinuxResources.DESCRIPTOR)} if self.chance(0.9) else {}
            if self.chance(0.4):
                update["ignore_failure"] = True
            drawn.append(update)
        return drawn

    def adjustment(self) -> Any:
        """What a plugin asks for the container being created."""
        self.in_adjustment = True
        try:
            return self.message(m.ContainerAdjustment.DESCRIPTOR)
        finally:
            self.in_adjustment = False

    def plugins(self, op: str, own_entry: str) -> list[Any]:
        """The plugins, in no order; some share an index, a few a name too."""
        count = self.one((1, 2, 2, 2, 3, 3, 4, 5))
        names = list(WILD_PLUGINS if self.wild else PLUGINS)
        indices = [f"{self.random.randrange(100):02}" for _ in range(2 if self.chance(0.2) else count)]
        other_entries: tuple[str, ...] = ("other1", "other2")
        if self.wild and self.chance(0.3):
            other_entries = (*other_entries, "", 'o"1')
        # Asking for an update of the container being created ends a case: seldom.
        targets = other_entries if op == "create" and not self.chance(0.1) else (*other_entries, own_entry)
        drawn = []
        for _ in range(count):
            name = names.pop(self.random.randrange(len(names)))
            plugin: dict[str, Any] = {"name": name, "index": self.one(indices)}
            if op == "create" and self.chance(0.92):
                plugin["adjust"] = self.adjustment()
            if self.chance(0.25 if op == "create" else 0.8):
                plugin["update"] = self.updates(targets, 4 if self.wild else 2)
            if op != "stop" and self.chance(0.06):
                plugin["evict"] = [{"container_id": self.one(targets), "reason": "r"}]
            if self.chance(0.02):
                plugin["error"] = self.one(ERRORS)
            drawn.append(plugin)
        if self.chance(0.6):
            settle(drawn, self.random)
        return drawn


def draw_case(random: Random, name: str) -> Case:
    """Draw one case. `name` becomes its id."""
    draw = Draw(random)
    op = draw.one(("create", "create", "create", "update", "update", "stop"))
    own_entry = "" if draw.wild and draw.chance(0.03) else "ctr"
    case: Case = {"id": name, "op": op, "pod": {"id": "pod", "name": "p", "uid": "u", "namespace": "default"}}
    if draw.wild and draw.chance(0.05):
        del case["pod"]
    elif draw.wild and draw.chance(0.1):
        case["pod"] = draw.message(m.PodSandbox.DESCRIPTOR)
    density = draw.one((0.03, 0.1, 0.3, 0.7)) if op != "stop" else 0.05
    before, draw.density = draw.density, density
    case["container"] = {**draw.message(m.Container.DESCRIPTOR), "id": own_entry, "pod_sandbox_id": "pod", "name": "c"}
    if draw.chance(0.15):
        case["container"].pop("linux", None)
    if op == "update" and draw.chance(0.85):
        case["resources"] = draw.message(m.LinuxResources.DESCRIPTOR)
    draw.density = before
    case["plugins"] = draw.plugins(op, own_entry)
    return case
