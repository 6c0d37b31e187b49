"""The calls with hooks are calls of the CRI."""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.proxy.hooks import HOOKED, Subject


def test_calls_with_hooks_belong_to_the_runtime_service() -> None:
    methods = pb.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name
    assert set(HOOKED) <= set(methods)


def test_the_subject_of_a_call_may_be_empty() -> None:
    assert Subject() == (None, None)
