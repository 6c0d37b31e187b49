"""Make the plugins of a drawn case agree, mostly, so that the fold goes on to the last one.

Drawn blindly, most cases with many fields end in the first conflict and say nothing of what would have come. Here the
replies are gone through in the order of the calls: a field that is taken is left out, and a key that is taken is taken
over by a removal beside it. A few stay as they were drawn. Next: `mix`.
"""

from random import Random
from typing import Any

from nri.api import messages as m
from tests.differential.vocabulary import KEYS

#: Messages whose fields are claimed one by one; others are claimed as a whole.
_BRANCHES = frozenset({"linux", "resources", "memory", "cpu", "rdt"})
_FREE = frozenset({"hooks", "devices", "remove"})

Taken = set[tuple[str, ...]]


def settle(plugins: list[Any], random: Random) -> None:
    """Change the replies in place."""
    accepted: Taken = set()
    for plugin in sorted(plugins, key=lambda entry: str(entry["index"])):
        if "adjust" in plugin:
            _message(plugin["adjust"], m.ContainerAdjustment.DESCRIPTOR, ("adjust",), accepted, random)
        for update in plugin.get("update", ()):
            resources = update.get("linux", {}).get("resources")
            if resources is not None:
                # A key cannot be taken over in an update, only left out.
                target = ("update", update.get("container_id", ""))
                _message(resources, m.LinuxResources.DESCRIPTOR, target, accepted, random)


def _message(data: dict[str, Any], descriptor: Any, above: tuple[str, ...], accepted: Taken, random: Random) -> None:
    for name in list(data):
        field, path = descriptor.fields_by_name[name], (*above, name)
        key = _key_of(descriptor, field)
        if name == "rdt" and random.random() < 0.3:
            data[name]["remove"] = True  # takes all of it over
        elif name == "args" and path in accepted and random.random() < 0.7:
            data[name] = ["", *data[name]]
        elif name in _BRANCHES:
            _message(data[name], field.message_type, path, accepted, random)
        elif isinstance(data[name], dict) and key is not None:
            entries = [(entry, value) for entry, value in data[name].items()]
            data[name] = dict(_entries(entries, path, accepted, random))
        elif key:
            pairs = [(str(element.get(key, "")), element) for element in data[name]]
            data[name] = [
                {**element, key: text} if text or key in element else element
                for text, element in _entries(pairs, path, accepted, random)
            ]
        elif name not in _FREE:
            if path in accepted and random.random() < 0.97:
                del data[name]
            accepted.add(path)


def _key_of(descriptor: Any, field: Any) -> str | None:
    """Name of the elements' key; "" for a map; None for other fields."""
    if f"{descriptor.name}.{field.name}" in KEYS:
        return ""
    kind = field.message_type
    if kind is None or not field.is_repeated:
        return None
    return next((entry.name for entry in kind.fields if f"{kind.name}.{entry.name}" in KEYS), None)


def _entries(
    entries: list[tuple[str, Any]], path: tuple[str, ...], accepted: Taken, random: Random
) -> list[tuple[str, Any]]:
    remaining: list[tuple[str, Any]] = []
    for key, value in entries:
        second = key in [other for other, _ in remaining]
        if second and random.random() < 0.95:
            continue
        if (*path, key) in accepted and not key.startswith("-") and random.random() < 0.97:
            if path[0] == "update" or random.random() < 0.2:
                continue
            remaining.insert(random.randrange(len(remaining) + 1), ("-" + key, value))
        accepted.add((*path, key))
        remaining.append((key, value))
    return remaining
