"""Stages of NodeSLO: its defaults, what is merged under what is written, and the check of its numbers."""

from __future__ import annotations

from typing import Any

from nri.policies.koordinator.rules import defaults

__all__ = ["STAGES"]

Json = dict[str, Any]


def _defaults(given: Json) -> Json:
    strategy = defaults.DEFAULTS["resourceQOSStrategy"]
    off = {
        name: defaults.OFF if isinstance(parts, dict) and name.endswith("Class") else parts
        for name, parts in strategy.items()
    }
    what = str(given["args"]["what"]).lower()
    return {"value": off if "none" in what or "disabled" in what else defaults.DEFAULTS}


def _merge(given: Json) -> Json:
    return {"spec": defaults.merged((given.get("node_slo") or {}).get("spec"))}


def _validate(given: Json) -> Json:
    part = given["args"]["part"]
    found = defaults.violations(part, given["node_slo"]["spec"].get(part))
    return {"valid": not found, "violations": [each._asdict() for each in found]}


STAGES = {"defaults": _defaults, "merge": _merge, "validate": _validate}
