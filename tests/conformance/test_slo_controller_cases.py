"""Recorded outcomes of Koordinator's manager (a7a1b76b) for ConfigMaps `slo-controller-config`, and our outcomes.

Recorded are the NodeSLO of a node with the given labels and annotations, computed without an earlier ConfigMap, and the
keys that the manager refused, which kept their defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nri.agent.koordinator.documents import merged
from nri.agent.koordinator.slo_controller import node_slo, salvage
from nri.config.json_lines import read_json_lines
from nri.kube import quantity
from tests.support.deviation_rows import deviation_rows

CASES = Path(__file__).parent / "data" / "koordinator-config-map.jsonl.xz"
BANDWIDTH = "totalNetworkBandwidth"
#: Cases with another outcome on purpose, and the rows of the deviations.
DEVIATIONS = {
    "repeated node strategies": "a repeated key of `slo-controller-config`",
    "null only entry of system": "null in `slo-controller-config`",
    "cluster bandwidth beyond": "bandwidths above 2^63",
}


def comparable(value: Any) -> Any:
    """Return a value without empty objects, in which bandwidths are numbers."""
    if isinstance(value, list):
        return [comparable(part or {}) for part in value]
    if not isinstance(value, dict):
        return value
    parts = {
        key: quantity.parse(part) if key == BANDWIDTH else comparable(part)
        for key, part in value.items()
        if part not in (None, "")
    }
    return {key: part for key, part in parts.items() if part not in ({}, [])}


def difference(case: dict[str, Any]) -> str:
    config_map, errors = salvage({"data": case.get("data", {})}, None)
    refused = [error.split(":")[0].removeprefix("data.") for error in errors.split("; data.") if error]
    node = {"metadata": {"labels": case.get("labels", {}), "annotations": case.get("annotations", {})}}
    document = node_slo(config_map, node)
    assert document is not None
    our_spec, manager_spec = comparable(merged(document["spec"])), comparable(merged(case["spec"]))
    if refused != case["refused"]:
        return f"refused {refused}, not {case['refused']}: {errors}"
    return "" if our_spec == manager_spec else f"{our_spec}, not {manager_spec}"


def test_the_manager_computes_the_same_node_slo_from_each_recorded_config_map() -> None:
    cases = list(read_json_lines(CASES, lambda _: ""))
    differences = {case["name"]: line for case in cases if (line := difference(case))}
    assert {name: line for name, line in differences.items() if name not in DEVIATIONS} == {}
    assert (len(cases), set(differences)) == (142, set(DEVIATIONS))
    assert set(DEVIATIONS.values()) <= set(deviation_rows("Koordinator"))
