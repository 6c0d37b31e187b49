"""What counts as a difference: an outcome of ours that the reference never has.

The comparison itself is the one of `nri conformance merge` (`nri.testing.conformance`), in reference mode. A case that
differs from the first answer is asked again, often: where the reference leaves something to chance, any of its answers
is right. A panic of the reference is not something to reproduce. Next: `shrink`.
"""

from dataclasses import dataclass

from nri.testing.conformance import run_merge_case
from tests.differential.generate import Case
from tests.differential.oracle import Expect, Oracle

#: How often a case is asked before chance is ruled out.
TIMES = 64


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding: the case with the reference's answer in it, as for a file of cases, and the readable diff."""

    case: Case
    diff: str
    answers: int  # different ones that the reference gave


def differs(case: Case, expect: Expect) -> bool:
    """Whether our outcome is another than this one."""
    return "panic" not in expect and run_merge_case({**case, "expect": expect}) is not None


def find(oracle: Oracle, case: Case, times: int = TIMES) -> Difference | None:
    """Ask the reference up to so many times; a Difference if none of its answers is ours."""
    if not differs(case, oracle.ask(case)):
        return None
    answers = oracle.answers(case, times)
    failures = [run_merge_case({**case, "expect": answer}) for answer in answers if "panic" not in answer]
    if not failures or None in failures:
        return None
    expected = next(answer for answer in answers if "panic" not in answer)
    return Difference({**case, "expect": expected}, str(failures[0]), len(answers))
