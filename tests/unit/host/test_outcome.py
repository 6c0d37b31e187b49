"""Results of writes, and their text of one line."""

from __future__ import annotations

import errno

import pytest

from nri.host import Outcome, Result
from nri.host.outcome import explain


@pytest.mark.parametrize("outcome", Outcome)
def test_applied_and_unchanged_values_are_in_force(outcome: Outcome) -> None:
    assert Result("pod", "cpu.idle", 1, outcome).in_force == (outcome in (Outcome.APPLIED, Outcome.UNCHANGED))


def test_a_text_names_cgroup_value_and_reason() -> None:
    assert str(Result("", "cpu.idle", 1, Outcome.GONE, "the cgroup does not exist")) == (
        "/: cpu.idle gone: the cgroup does not exist"
    )
    assert str(Result("pod", "cpu.idle", 1, Outcome.APPLIED)) == "pod: cpu.idle applied"


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(errno.ESRCH, Outcome.GONE), (errno.ENOENT, Outcome.GONE), (errno.ENODEV, Outcome.GONE),
     (errno.EOPNOTSUPP, Outcome.UNSUPPORTED), (errno.EROFS, Outcome.UNSUPPORTED),
     (errno.EINVAL, Outcome.REFUSED), (errno.EPERM, Outcome.REFUSED)],
)  # fmt: skip
def test_an_error_is_gone_unsupported_or_refused(number: int, outcome: Outcome) -> None:
    assert explain(OSError(number, "words")) == (outcome, "words")


def test_an_error_without_a_text_gets_one() -> None:
    assert explain(OSError("only this"))[1] == "only this"
