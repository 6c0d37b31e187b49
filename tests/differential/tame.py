"""Take out of a case what default mode is documented to do otherwise than the reference (docs/deviations.md).

What is left must come out alike in both modes, but for what `plugins` puts right by rule. Removals, and keys that are
set twice, are left to the tests of the rules themselves. Next: `requests`.
"""

from collections.abc import Iterator
from typing import Any

from tests.differential.generate import Case

#: Fields of adjustments with a rule of their own: RDT, CDI, limits, arguments that are only the override mark.
_ADJUSTED = ("args", "CDI_devices", "rlimits")
#: Lists whose elements have a key, and its name.
_KEYS = {"env": "key", "mounts": "destination", "devices": "path", "namespaces": "type"}
#: Fields of a container or a request that limits could meet.
_LIMITS = ("hugepage_limits", "pids")


def tame_case(case: Case, alive: set[str]) -> Case:
    """The same case, in the manner of plugins that know their rules.

    Only the first one names containers that there are not: two of them would conflict with each other.
    """
    container = {key: value for key, value in case["container"].items() if key != "rlimits"}
    tamed: Case = {**case, "container": _without_limits(container)}
    if "resources" in case:
        tamed["resources"] = _without(case["resources"], _LIMITS)
    tamed["plugins"] = [
        _tame_plugin(plugin, alive if number else None) for number, plugin in enumerate(case["plugins"])
    ]
    return tamed


def _tame_plugin(plugin: dict[str, Any], targets: set[str] | None) -> dict[str, Any]:
    tamed = dict(plugin)
    if "adjust" in tamed:
        adjust = _without_limits(_without(tamed["adjust"], _ADJUSTED))
        if "linux" in adjust:
            adjust["linux"] = _without(adjust["linux"], ("rdt",))
        tamed["adjust"] = _keyed(adjust)
    if "update" in tamed:
        tamed["update"] = list(_tame_updates(tamed["update"], targets))
    return tamed


def _tame_updates(updates: list[Any], targets: set[str] | None) -> Iterator[Any]:
    named: set[str] = set()
    for update in updates:
        target = update.get("container_id", "")
        resources = _keyed(_without(update.get("linux", {}).get("resources", {}), (*_LIMITS, "devices")))
        existing = target and (targets is None or target in targets)
        if existing and target not in named and _says_something(resources):
            named.add(target)
            yield {"container_id": target, "linux": {"resources": resources}}


def _says_something(value: Any) -> bool:
    return any(map(_says_something, value.values())) if isinstance(value, dict) else value not in ([], "")


def _without(tree: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in names}


def _without_limits(tree: dict[str, Any]) -> dict[str, Any]:
    linux = tree.get("linux")
    if not linux or "resources" not in linux:
        return tree
    return {**tree, "linux": {**linux, "resources": _without(linux["resources"], _LIMITS)}}


def _keyed(tree: Any, key_name: str = "") -> Any:
    """The same without removal marks, and with each key once."""
    if isinstance(tree, dict):
        return {key: _keyed(value, _KEYS.get(key, "")) for key, value in tree.items() if not key.startswith("-")}
    if not isinstance(tree, list) or not key_name:
        return tree
    remaining = {element.get(key_name, ""): element for element in tree}
    return [element for key, element in remaining.items() if not key.startswith("-")]
