"""Stages of NodeSLO: its defaults, the merge of them under it, the check of its numbers, and colocation."""

from __future__ import annotations

from typing import Any

from nri.policies.koordinator.rules import colocation, defaults

__all__ = ["STAGES"]

Json = dict[str, Any]


def _defaults(given: Json) -> Json:
    strategy = defaults.DEFAULTS["resourceQOSStrategy"]
    off = {
        name: defaults.OFF if isinstance(parts, dict) and name.endswith("Class") else parts
        for name, parts in strategy.items()
    }
    what = str(given["args"]["what"]).lower()
    if "colocation" in what:
        return {"value": colocation.DEFAULTS}
    return {"value": off if "none" in what or "disabled" in what else defaults.DEFAULTS}


def _merge(given: Json) -> Json:
    """The spec as Koordinator shows what it has read: a block always has its limits."""
    spec = defaults.merged((given.get("node_slo") or {}).get("spec"))
    for part in spec["resourceQOSStrategy"].values():
        for block in (part.get("blkioQOS") or {}).get("blocks") or ():
            block.setdefault("ioCfg", {})
    return {"spec": spec}


def _validate(given: Json) -> Json:
    part = given["args"]["part"]
    found = defaults.violations(part, given["node_slo"]["spec"].get(part))
    return {"valid": not found, "violations": [each._asdict() for each in found]}


def _of_node(given: Json) -> Json:
    config, node = (given.get("args") or {}).get("config"), given.get("node")
    return {"strategy": None if config is None or node is None else colocation.of_node(config, node)}


def _valid(given: Json) -> Json:
    strategy = given["args"]["strategy"]
    return {"valid": strategy is not None and not colocation.wrong(strategy)}


STAGES = {
    "defaults": _defaults,
    "merge": _merge,
    "validate": _validate,
    "colocation.node": _of_node,
    "colocation.valid": _valid,
}
