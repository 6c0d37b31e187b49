"""Check the format of a recorded sequence of placements before it is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nri.api import cpuset
from nri.placement.recorded.sequences import ASSERTIONS
from nri.text import plain

_TEXT_LISTS = ("cpus", "cpus_subset_of", "numa_nodes_of_cpus")

#: The keys that a case and its parts must have, with the types of their values.
_CASE_KEYS: Mapping[str, type] = {"policy": str, "topology": str, "config": dict, "node_memory_capacity_bytes": int}
_STEP_KEYS: Mapping[str, Mapping[str, type]] = {
    "create": {"pod": str, "namespace": str, "qos": str, "containers": list},
    "delete": {"pods": list},
    "resize": {"container": str, "cpu_request_m": int},
}
_NUMBERS = ("cpu_request_m", "cpu_limit_m", "mem_request", "mem_limit")


def problem_of(case: Mapping[str, Any]) -> str:
    """Why a sequence cannot be replayed, with the position of the mistake. Returns "" if it can be replayed."""
    try:
        _check_keys(case, _CASE_KEYS, "the case")
        for key in ("topology_overrides", "expected"):
            _check_type(case.get(key, {}), dict, key)
        if case["node_memory_capacity_bytes"] < 1:
            raise _Malformed("node_memory_capacity_bytes must be above 0")
        names = set[str]()
        steps = case.get("steps", [])
        _check_type(steps, list, "steps")
        for number, step in enumerate(steps):
            names |= _check_step(step, f"steps[{number}]")
        assertions = case.get("repo_assertions", [])
        _check_type(assertions, list, "repo_assertions")
        for number, assertion in enumerate(assertions):
            _check_assertion(assertion, f"repo_assertions[{number}]", len(steps), names)
    except _Malformed as error:
        return str(error)
    return ""


class _Malformed(ValueError):
    """A part of a case that cannot be read; the message starts with its position."""


def _check_type(value: object, kind: type, where: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Malformed(f"{where} must be {_KINDS[kind]}, not {plain(repr(value), 80)}")


_KINDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _check_keys(part: object, keys: Mapping[str, type], where: str) -> None:
    _check_type(part, dict, where)
    assert isinstance(part, Mapping)
    for key, kind in keys.items():
        if key not in part:
            raise _Malformed(f"{where} has no key {key!r}")
        _check_type(part[key], kind, f"{where}: {key}")


def _check_step(step: Any, where: str) -> set[str]:
    """Check a step. Returns the names of the containers that it creates."""
    _check_keys(step, {"op": str, "expect": dict}, where)
    if step["op"] not in _STEP_KEYS:
        raise _Malformed(f"{where}: unknown step {plain(step['op'], 80)!r}; known steps: {', '.join(_STEP_KEYS)}")
    _check_keys(step, _STEP_KEYS[step["op"]], where)
    names = set()
    for key in ("annotations", "labels"):
        for name, value in _entries(step, key, where):
            _check_type(value, str, f"{where}: {key}: {plain(name, 80)}")
    for number, container in enumerate(step.get("containers", ())):
        _check_keys(container, {"name": str}, f"{where}: containers[{number}]")
        _check_numbers(container, f"{where}: containers[{number}]")
        names.add(container["name"])
    _check_numbers(step, where)
    return names


def _entries(part: Mapping[str, Any], key: str, where: str) -> Iterable[tuple[str, Any]]:
    _check_type(part.get(key, {}), dict, f"{where}: {key}")
    entries: Mapping[str, Any] = part.get(key, {})
    return entries.items()


def _check_numbers(part: Mapping[str, Any], where: str) -> None:
    for key in _NUMBERS:
        _check_type(part.get(key, 0), int, f"{where}: {key}")


def _check_assertion(assertion: Any, where: str, steps: int, containers: set[str]) -> None:
    _check_type(assertion, dict, where)
    if "after_step" not in assertion:
        _check_keys(assertion, {"when": str, "zone_attributes": dict}, where)
        for name, _ in _entries(assertion, "zone_attributes", where):
            _check_type(assertion["zone_attributes"][name], dict, f"{where}: zone_attributes: {plain(name, 80)}")
        return
    _check_keys(assertion, {"after_step": int}, where)
    if not 0 <= assertion["after_step"] < steps:
        raise _Malformed(f"{where}: after_step {assertion['after_step']} is out of range; the case has {steps} steps")
    for kind, expected in assertion.items():
        if kind != "after_step":
            _check_expectation(kind, expected, where, containers)


def _check_expectation(kind: str, expected: Any, where: str, containers: set[str]) -> None:
    if kind not in ASSERTIONS:
        raise _Malformed(f"{where}: unknown assertion {plain(kind, 80)!r}; known assertions: {', '.join(ASSERTIONS)}")
    if not isinstance(expected, list if kind.startswith(("disjoint", "same", "not")) else dict):
        raise _Malformed(f"{where}: {kind}: {plain(repr(expected), 80)} does not name containers")
    for name in expected:
        if name not in containers:
            raise _Malformed(f"{where}: {kind}: no step creates the container {plain(str(name), 80)!r}")
    for text in expected.values() if isinstance(expected, dict) and kind in _TEXT_LISTS else ():
        try:
            cpuset.parse(text)
        except (ValueError, TypeError, AttributeError):
            raise _Malformed(f"{where}: {kind}: {plain(repr(text), 80)} is not a list such as 0-3,8") from None
