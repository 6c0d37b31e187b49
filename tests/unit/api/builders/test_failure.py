"""The failure policy of a plugin."""

from __future__ import annotations

import copy
import pickle

import pytest

from nri.api import messages as m
from nri.api.builders.failure import FailurePolicy


def test_a_failure_policy_is_comparable_hashable_and_printable() -> None:
    policy = FailurePolicy(fail_request=True, keep_connected=True)
    assert policy == FailurePolicy(keep_connected=True, fail_request=True)
    assert policy != FailurePolicy()
    assert len({policy, FailurePolicy(fail_request=True, keep_connected=True)}) == 1
    assert repr(policy) == "FailurePolicy(fail_request=True, keep_connected=True)"
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == policy


def test_a_failure_policy_converts_to_a_message_and_back() -> None:
    policy = FailurePolicy(fail_request=True)
    assert policy.message == m.FailurePolicy(fail_request=True)
    assert FailurePolicy.of(policy.message) == policy


def test_a_failure_policy_is_immutable_and_accepts_only_bools() -> None:
    with pytest.raises(AttributeError, match="fail_request"):
        FailurePolicy().fail_request = True
    with pytest.raises(AttributeError):
        del FailurePolicy().fail_request
    with pytest.raises(TypeError, match="keep_connected must be a bool, not 'yes'"):
        FailurePolicy(keep_connected="yes")


def test_a_failure_policy_equals_only_a_policy_with_the_same_values() -> None:
    same = FailurePolicy(fail_request=True)
    assert same == FailurePolicy(fail_request=True) and hash(same) == hash(FailurePolicy(fail_request=True))
    assert same != FailurePolicy(fail_request=False)
    assert same != (True, None)
