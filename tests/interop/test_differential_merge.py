"""Random cases over the whole API, merged by the reference and by us in reference mode: both come out the same.

A few dozen cases on a developer's machine, a few thousand in CI; ``HYPOTHESIS_PROFILE=long`` draws new ones for as long
as one likes. What it finds becomes a line of a file in tests/conformance/data. Cases that the reference itself answers
differently from run to run are passed over.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.adaptation.merge.fields import FIELD_NAMES, ROWS, Kind
from nri.api import messages as m
from nri.testing.conformance import run_merge_case
from tests.peers.build import peer
from tests.property.merge_messages import MARKED, containers, fill, updates
from tests.support import needs

CASES = 3000 if needs.no_skip() else settings().max_examples
#: How often the reference answers each case, to find out whether chance decides.
RUNS = 40
#: Fields that the reference walks in the order of a Go map: which of two conflicts it names is chance.
MAPS = "|".join(FIELD_NAMES[row.claim] for row in ROWS if row.kind is Kind.MAP)
CONFLICT_IN_A_MAP = re.compile(rf'(plugins "[^"]*") and "[^"]*" (both tried to set (?:{MAPS})) .*')

Json = dict[str, Any]


class Oracle:
    """The reference as a process that answers cases line by line."""

    def __init__(self) -> None:
        command = [str(peer("oracle")), "-runs", str(RUNS)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, case: Json) -> Json:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer: Json = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        self.process.communicate(timeout=20)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    process = Oracle()
    yield process
    process.close()


def as_json(message: Any) -> Json:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


@st.composite
def plugins(draw: st.DrawFn, op: str) -> Json:
    plugin: Json = {"name": draw(st.sampled_from("xyz")), "index": draw(st.sampled_from(["10", "20", "30"]))}
    if op == "create" and draw(st.integers(0, 9)):
        plugin["adjust"] = as_json(fill(draw, m.ContainerAdjustment(), [*MARKED, "", "-"], 4))
    targets = ("o1", "o2", "", *(["ctr"] * 3 if op != "create" else []))
    plugin["update"] = [as_json(update) for update in draw(st.lists(updates(targets), max_size=3))]
    if op != "stop" and not draw(st.integers(0, 9)):
        plugin["evict"] = [{"container_id": "o1", "reason": "r"}]
    if not draw(st.integers(0, 19)):
        plugin["error"] = "plugin says no"
    return plugin


@st.composite
def cases(draw: st.DrawFn) -> Json:
    op = draw(st.sampled_from(["create", "update", "stop"]))
    case: Json = {"id": "drawn", "op": op, "pod": {"id": "pod"}, "container": as_json(draw(containers()))}
    if op == "update" and draw(st.booleans()):
        case["resources"] = as_json(fill(draw, m.LinuxResources(), MARKED, 4))
    case["plugins"] = draw(st.lists(plugins(op), min_size=1, max_size=4))
    return case


def without_chance(text: str) -> str:
    return CONFLICT_IN_A_MAP.sub(r"\1 \2", text)


@pytest.mark.timeout(900)
@settings(max_examples=CASES)
@given(case=cases())
def test_the_reference_and_we_merge_alike(oracle: Oracle, case: Json) -> None:
    answer = oracle.answer(case)
    if not answer["stable"]:
        return
    case["expect"] = answer["expect"]
    failure = run_merge_case(case)
    if failure is not None:
        lines = failure.diff.splitlines()
        errors = [line[1:] for line in lines if re.match(r'[-+] "plugins', line)]
        by_chance = len(errors) == 2 and without_chance(errors[0]) == without_chance(errors[1])
        assert by_chance, f"{failure}\n{json.dumps(case)}"
