"""The table of adjustable fields: what a plugin can change, how changes combine, and which claim guards them.

There is a row for each field, in the order in which the Go library claims them, because the order decides which of two
conflicts is reported. A row covers all fields below its path. A test checks that the rows cover every field of an
adjustment and an update. The names of fields in a policy's ``fields`` and a plugin's ``sets`` follow from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, IntEnum
from operator import attrgetter
from typing import Any

from nri.api import messages as m
from nri.api.removal import split
from nri.text import nearest

#: The names of the API's `Field` enum by number, as conflict texts print them.
FIELD_NAMES: dict[int, str] = {number: name for name, number in m.Field.items()}
_NUMBERS = {name: number for number, name in FIELD_NAMES.items()}


class Kind(IntEnum):
    """How the values of several plugins combine. Integers, because members of a plain Enum hash slowly."""

    SIMPLE = 0
    """One value with one owner; set when present (strings: when not empty)."""
    MAP = 1
    """Entries by key, with an owner for each key."""
    KEYED = 2
    """A list whose elements have a key, with an owner for each key."""
    LIST = 3
    """A list that only grows; no plugin owns an element."""
    ACCUMULATED = 4
    """A list to which every plugin may add; all plugins that add are owners."""
    ARGS = 5
    """A list with one owner; a leading empty string takes it from its owner."""
    RESET = 6
    """A switch that takes the fields in the same message from their owners."""


class Visibility(Enum):
    """Whether later plugins see an adjustment in the container that they get."""

    ALWAYS = "in every mode"
    BY_RULE = "if Rules.later_plugins_see_all"
    NEVER = "the container does not have the field"


class Row:
    """An adjustable field.

    Attributes:
        path: the dotted path in `ContainerAdjustment`, and if the field is shown, also in `Container`.
        kind: how values combine.
        claim: the number of the API's `Field` enum, 0 if no plugin owns the field.
        key: the name of the elements' key for KEYED, else "".
        removable: keys may have the removal mark.
        marks_kept: unpaired removals of list elements reach the reply in every mode.
        removal_claims: the Go library treats a removal like any other claim.
        shown: whether later plugins see the field.
    """

    __slots__ = (
        "always_shown", "claim", "in_resources", "is_text", "is_wrapper", "key", "kind", "marks_kept",
        "name", "parent", "path", "rank", "removable", "removal_claims", "shown",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        kind: Kind,
        claim: str = "",
        key: str = "",
        *,
        removable: bool = False,
        marks_kept: bool = False,
        removal_claims: bool = False,
        shown: Visibility = Visibility.ALWAYS,
    ) -> None:
        parent, _, self.name = path.rpartition(".")
        self.path, self.kind, self.key = path, kind, key
        self.claim = _NUMBERS[claim] if claim else 0
        self.removable, self.marks_kept, self.removal_claims, self.shown = removable, marks_kept, removal_claims, shown
        #: Returns the message that has the field, from an adjustment or from a container.
        self.parent: Callable[[Any], Any] = attrgetter(parent) if parent else _message_itself
        self.always_shown = shown is Visibility.ALWAYS
        self.in_resources = path.startswith("linux.resources.")
        self.rank = 0
        #: Whether the field is a plain string, which is set when it is not empty.
        self.is_text = False
        #: Whether the field is a message of one plain value: merging a value other than zero over it replaces it.
        self.is_wrapper = False

    def __repr__(self) -> str:
        return f"Row({self.path}, {self.kind.name})"

    @property
    def label(self) -> str:
        """The field's name in output: from the API's `Field` enum, or the path if the enum has no name for it."""
        return FIELD_NAMES[self.claim] if self.claim else self.path

    def has(self, message: Any) -> bool:
        """Whether a simple field is set in an adjustment or container."""
        parent = self.parent(message)
        return bool(getattr(parent, self.name)) if self.is_text else bool(parent.HasField(self.name))


def _message_itself(message: Any) -> Any:
    return message


_S, _MAP, _KEYED = Kind.SIMPLE, Kind.MAP, Kind.KEYED
_MEM, _CPU, _RES = "linux.resources.memory.", "linux.resources.cpu.", "linux.resources."

ROWS: tuple[Row, ...] = (
    Row("annotations", _MAP, "Annotations", removable=True),
    Row("mounts", _KEYED, "Mounts", "destination", removable=True, marks_kept=True),
    Row("env", _KEYED, "Env", "key", removable=True),
    Row("args", Kind.ARGS, "Args"),
    Row("hooks", Kind.ACCUMULATED, "OciHooks"),
    Row("linux.devices", _KEYED, "Devices", "path", removable=True),
    Row(_MEM + "limit", _S, "MemLimit"),
    Row(_MEM + "reservation", _S, "MemReservation"),
    Row(_MEM + "swap", _S, "MemSwapLimit"),
    Row(_MEM + "kernel", _S, "MemKernelLimit"),
    Row(_MEM + "kernel_tcp", _S, "MemTCPLimit"),
    Row(_MEM + "swappiness", _S, "MemSwappiness"),
    Row(_MEM + "disable_oom_killer", _S, "MemDisableOomKiller"),
    Row(_MEM + "use_hierarchy", _S, "MemUseHierarchy"),
    Row(_CPU + "shares", _S, "CPUShares"),
    Row(_CPU + "quota", _S, "CPUQuota"),
    Row(_CPU + "period", _S, "CPUPeriod"),
    Row(_CPU + "realtime_runtime", _S, "CPURealtimeRuntime"),
    Row(_CPU + "realtime_period", _S, "CPURealtimePeriod"),
    Row(_CPU + "cpus", _S, "CPUSetCPUs"),
    Row(_CPU + "mems", _S, "CPUSetMems"),
    Row(_RES + "hugepage_limits", _KEYED, "HugepageLimits", "page_size"),
    Row(_RES + "devices", Kind.LIST),
    Row(_RES + "unified", _MAP, "CgroupsUnified"),
    Row(_RES + "blockio_class", _S, "BlockioClass"),
    Row(_RES + "rdt_class", _S, "RdtClass"),
    Row(_RES + "pids", _S, "PidsLimit"),
    Row("linux.cgroups_path", _S, "CgroupsPath"),
    Row("linux.oom_score_adj", _S, "OomScoreAdj"),
    Row("linux.io_priority", _S, "IoPriority"),
    Row("linux.seccomp_policy", _S, "SeccompPolicy"),
    Row("linux.namespaces", _KEYED, "Namespace", "type", removable=True, marks_kept=True, removal_claims=True),
    Row("linux.sysctl", _MAP, "Sysctl", removable=True),
    Row("linux.net_devices", _MAP, "LinuxNetDevices", removable=True),
    Row("linux.scheduler", _S, "LinuxSched"),
    Row("linux.rdt.remove", Kind.RESET, shown=Visibility.BY_RULE),
    Row("linux.rdt.clos_id", _S, "RdtClosID", shown=Visibility.BY_RULE),
    Row("linux.rdt.schemata", _S, "RdtSchemata", shown=Visibility.BY_RULE),
    Row("linux.rdt.enable_monitoring", _S, "RdtEnableMonitoring", shown=Visibility.BY_RULE),
    Row("linux.memory_policy", _S, "MemoryPolicy", shown=Visibility.NEVER),
    Row("rlimits", _KEYED, "Rlimits", "type"),
    Row("CDI_devices", _KEYED, "CdiDevices", "name", shown=Visibility.BY_RULE),
)  # fmt: skip

#: The fields whose owners are stored per key.
COMPOUND_FIELDS = frozenset(row.claim for row in ROWS if row.kind in (_MAP, _KEYED))

#: The row of each field number, or the table of the inner message.
Node = dict[int, "Row | Node"]


def grow(descriptor: Any, prefix: str, rows: dict[str, Row]) -> Node:
    """Build the tree of a message. A field without rows is left out, which a test detects."""
    tree: Node = {}
    for field in descriptor.fields:
        path = prefix + field.name
        row = rows.get(path)
        if row is not None:
            row.is_text = row.kind is _S and field.message_type is None
            inside: Any = field.message_type.fields if field.message_type is not None else ()
            row.is_wrapper = row.kind is _S and len(inside) == 1 and not inside[0].is_repeated
            tree[field.number] = row
        elif field.message_type is not None and any(path_.startswith(path + ".") for path_ in rows):
            tree[field.number] = grow(field.message_type, path + ".", rows)
    return tree


for _rank, _row in enumerate(ROWS):
    _row.rank = _rank

#: The rows by field number, for `ContainerAdjustment`.
TREE: Node = grow(m.ContainerAdjustment.DESCRIPTOR, "", {row.path: row for row in ROWS})
#: The rows by field number, only for `LinuxResources`: the fields that an update can change.
RESOURCES_TREE: Node = grow(m.LinuxResources.DESCRIPTOR, _RES, {row.path: row for row in ROWS})


#: The name of evictions.
EVICT = "evict"


def _names() -> dict[str, frozenset[str]]:
    names: dict[str, set[str]] = {EVICT: {EVICT}}
    for row in ROWS:
        parts = row.path.split(".")
        for end in range(1, len(parts) + 1):
            names.setdefault(".".join(parts[:end]), set()).add(row.path)
        if row.claim:
            names.setdefault(FIELD_NAMES[row.claim], set()).add(row.path)
    return {name: frozenset(paths) for name, paths in names.items()}


#: The paths of the rows that each name of a field covers.
NAMES: dict[str, frozenset[str]] = _names()
#: The paths of the rows that have an owner for each key.
BY_KEY = frozenset(row.path for row in ROWS if row.kind in (_MAP, _KEYED))


def named(text: str) -> frozenset[str]:
    """The paths of a field's name. Raises ValueError, with the most similar name, for an unknown name."""
    if text in NAMES:
        return NAMES[text]
    suggestion = nearest(text, sorted(NAMES, key=lambda name: name[0].islower() is text[:1].islower()))
    hint = f'did you mean "{suggestion}"?' if suggestion else "write for example Env, MemLimit or linux.resources.cpu"
    raise ValueError(f'"{text}" is not a field that a plugin can change; {hint}')


class DeclaredField:
    """An entry of a plugin's declared fields: a name of `NAMES`, or a name with a key, ``env.LEVEL``.

    Attributes:
        paths: the paths of the rows that the entry covers.
        key: the only key that the entry covers; with ``*`` at the end all keys with this prefix; ``*`` for all keys.

    Raises ValueError for an unknown field.
    """

    __slots__ = ("key", "paths", "text")

    def __init__(self, text: str) -> None:
        self.text, self.key = text, "*"
        for place, letter in enumerate(text):
            if letter == "." and text[place + 1 :] and text[:place] in NAMES and NAMES[text[:place]] <= BY_KEY:
                self.paths, self.key = NAMES[text[:place]], text[place + 1 :]
                return
        self.paths = named(text.removesuffix(".*"))

    def covers(self, path: str, key: str) -> bool:
        """Whether the entry covers a key of a row; "" for a row without keys."""
        own_key = self.key
        return path in self.paths and (key.startswith(own_key[:-1]) if own_key.endswith("*") else key == own_key)

    def common(self, other: DeclaredField) -> str | None:
        """The keys of the same row that both cover. Returns None if they have no common keys."""
        wide, narrow = sorted((self.key, other.key), key=lambda key: (not key.endswith("*"), len(key)))
        same = narrow.startswith(wide[:-1]) if wide.endswith("*") else narrow == wide
        return narrow if same else None


def touched(message: Any, tree: Node = TREE) -> Iterator[tuple[Row, str]]:
    """Yield the rows that a message sets or removes, each with a key; the key is "" for a row without keys."""
    for field, value in message.ListFields():
        node = tree.get(field.number)
        if isinstance(node, Row):
            keys: Iterable[str] = ("",)
            if node.kind is _MAP:
                keys = value
            elif node.kind is _KEYED:
                keys = [str(getattr(element, node.key)) for element in value]
            for key in keys:
                yield node, (split(key)[0] if node.removable else key)
        elif node is not None:
            yield from touched(value, node)
