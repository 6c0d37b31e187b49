"""New cases from recorded ones: the request of one, and plugins' answers of several others.

Recorded cases are in the manner of those that are kept back, to the letter; mixed ones meet where the recorded ones did
not. Next: `oracle`.
"""

import copy
import functools
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

from nri.conformance.cases import MERGE_OPS, read_cases
from tests.differential.generate import Case
from tests.differential.peace import settle

RECORDED = Path(__file__).parent.parent / "conformance" / "data" / "merge.jsonl.xz"


@functools.cache
def _recorded() -> dict[str, list[Case]]:
    by_op: dict[str, list[Case]] = defaultdict(list)
    for case in read_cases(RECORDED):
        if case["op"] in MERGE_OPS:
            by_op[case["op"]].append(case)
    return by_op


def mix_case(random: Random, name: str) -> Case:
    """Draw one case. `name` becomes its id."""
    op = random.choice(("create", "create", "create", "update", "stop"))
    cases = _recorded()[op]
    case = copy.deepcopy(random.choice(cases))
    case["id"] = name
    del case["expect"]
    own_entry = case["container"]["id"]
    case["plugins"] = [_plugin(random, cases, own_entry) for _ in range(random.choice((1, 2, 2, 3, 3, 4, 5)))]
    if random.random() < 0.15:
        for plugin in case["plugins"]:
            plugin["index"] = case["plugins"][0]["index"]
    if random.random() < 0.6:
        settle(case["plugins"], random)
    return case


def _plugin(random: Random, cases: list[Case], own_entry: str) -> dict[str, Any]:
    source = random.choice(cases)
    plugin: dict[str, Any] = copy.deepcopy(random.choice(source["plugins"]))
    plugin["index"] = f"{random.randrange(100):02}"
    for part in (*plugin.get("update", ()), *plugin.get("evict", ())):
        if part.get("container_id") == source["container"]["id"]:
            part["container_id"] = own_entry
    return plugin
