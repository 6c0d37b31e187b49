"""The calls at which hook servers are asked are calls of the CRI."""

from __future__ import annotations

from nri.cri.pb import api_pb2 as pb
from nri.proxy.hooks import HOOKED, Subject


def test_hooked_calls_are_calls_of_the_runtime_service() -> None:
    methods = pb.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name
    assert set(HOOKED) <= set(methods)


def test_nothing_need_be_known_of_a_call() -> None:
    assert Subject() == (None, None)
