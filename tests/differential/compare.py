"""What counts as a difference: an outcome of ours that the reference never has.

The comparison itself is the one of `nri conformance` (`nri.conformance.cases`), in reference mode. A case that
differs from the first answer is asked again, often: where the reference leaves something to chance, any of its answers
is right, and a part on which its answers differ says nothing. A panic of the reference is not something to reproduce.
Next: `shrink`.
"""

import json
import re
from dataclasses import dataclass

from nri.conformance.cases import Failure, run_merge_case, run_spec_case
from nri.oci import MountTable
from tests.differential.generate import Case
from tests.differential.oracle import Expect, Oracle

#: How often a case is asked before chance is ruled out.
TIMES = 64
_PART = re.compile(r"^--- (\w+): recorded$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding: the case with the reference's answer in it, as for a file of cases, and the readable diff."""

    case: Case
    diff: str
    parts: tuple[str, ...]  # of the outcome, that differ and are no chance


def run_case(case: Case, host: MountTable | None = None) -> Failure | None:
    """Run a case with an expectation; one of the spec generator on this host's mounts, or on those given."""
    if case["op"] == "spec":
        return run_spec_case(case, host or MountTable.of_host())
    return run_merge_case(case)


def differs(case: Case, expect: Expect, host: MountTable | None = None) -> bool:
    """Whether our outcome is another than this one. A panic of the reference is none."""
    return "panic" not in expect and run_case({**case, "expect": expect}, host) is not None


def find(oracle: Oracle, case: Case, times: int = TIMES) -> Difference | None:
    """Ask the reference up to so many times; a Difference if ours is none of its answers, and that is no chance."""
    host = oracle.mounts
    if not differs(case, oracle.ask(case), host):
        return None
    answers = [answer for answer in oracle.answers(case, times) if "panic" not in answer]
    failures = [run_case({**case, "expect": answer}, host) for answer in answers]
    if not failures or failures[0] is None or None in failures:
        return None
    parts = _PART.findall(failures[0].diff) or ["the case, which only the reference can read"]
    certain = tuple(part for part in parts if _agree(part, answers))
    return Difference({**case, "expect": answers[0]}, str(failures[0]), certain) if certain else None


def _agree(part: str, answers: list[Expect]) -> bool:
    return len({json.dumps(_settled(answer.get(part)), sort_keys=True) for answer in answers}) == 1


def _settled(value: object) -> object:
    """The value with its lists sorted: an order alone makes no two answers."""
    if isinstance(value, dict):
        return {key: _settled(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return sorted((_settled(entry) for entry in value), key=lambda entry: json.dumps(entry, sort_keys=True))
    return value
