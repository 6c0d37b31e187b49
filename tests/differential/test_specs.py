"""Our spec generator in reference mode and the released generator agree on random specs and adjustments."""

import dataclasses
import json
from collections.abc import Iterator

import pytest

from nri.rules import Rules
from tests.differential.__main__ import both, spec_cases
from tests.differential.compare import differs, find
from tests.differential.oracle import Expect, Oracle
from tests.differential.shrink import shrink

Answered = list[tuple[dict[str, object], Expect]]

#: Rules of the generator whose effect a spec shows. (Cases have no resolvers, so the last one is not asked for.)
SPEC_RULES = [
    "env_adjustment_wins",
    "bare_env_kept",
    "rlimits_replace",
    "removal_takes_all",
    "device_removal_revokes",
    "device_access_follows_mode",
    "time_namespace_known",
    "seccomp_errno_kept",
    "unknown_values_refused",
    "all_memory_fields_applied",
    "unlimited_pids_applied",
    "propagation_per_mount",
    "unresolved_refused",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as process:
        yield process


@pytest.fixture(scope="module")
def answered(oracle: Oracle) -> Answered:
    """The cases of one seed with the reference's answers."""
    return list(oracle.stream(spec_cases(seed=1, count=3000)))


def test_seeded_specs_have_the_outcome_of_the_reference(oracle: Oracle, answered: Answered) -> None:
    for case, expect in answered:
        if differs(case, expect, oracle.mounts) and find(oracle, case) is not None:
            small = shrink(case, lambda candidate: find(oracle, candidate, 8) is not None)
            matches = find(oracle, small) or find(oracle, case)
            assert matches is not None
            pytest.fail(f"{matches.diff}\nas a line: {json.dumps(matches.case)}", pytrace=False)


@pytest.mark.parametrize("rule", SPEC_RULES)
def test_a_changed_rule_is_detected(
    oracle: Oracle, answered: Answered, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks the test itself: random cases detect a changed rule of the generator."""
    monkeypatch.setattr(Rules, "REFERENCE", dataclasses.replace(Rules.REFERENCE, **{rule: True}))
    entry = next((c for c, expect in answered if differs(c, expect, oracle.mounts) and find(oracle, c, 4)), None)
    assert entry is not None, f"no case shows {rule}"


def test_equal_seeds_draw_equal_specs() -> None:
    assert list(spec_cases(7, 20)) == list(spec_cases(7, 20))
    assert [case["op"] == "spec" for case in both(7, 6)] == [False, True] * 3


def test_most_cases_succeed_and_cover_all_kinds_of_mounts(oracle: Oracle, answered: Answered) -> None:
    succeeded = [expect["spec"] for _, expect in answered if "spec" in expect]
    assert len(succeeded) > len(answered) * 3 / 4, "too many cases end in an error"
    errors = " ".join(expect["error"] for _, expect in answered if "error" in expect)
    assert 'is "", not' in errors
    if {mount.propagation for mount in oracle.mounts.mounts} > {""}:  # as root
        assert 'is "rslave", not "rshared"' in errors
        matches = {spec.get("linux", {}).get("rootfsPropagation") for spec in succeeded}
        assert matches >= {"rshared", "rslave"}
