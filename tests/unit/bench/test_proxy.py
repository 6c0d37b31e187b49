"""The calls of an idle kubelet, and the table of their cost for the proxy."""

from __future__ import annotations

import argparse

from bench.studies.proxy import EVERY_S, Rest, page
from nri.cri.pb import api_pb2 as pb


def test_an_idle_kubelets_calls_are_about_three_cri_calls_per_second() -> None:
    methods = {
        method.name: method.input_type
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    for _, _, calls in EVERY_S:
        assert all(request.DESCRIPTOR is methods[method] for method, request in calls)
    assert 3 < sum(len(calls) / every for _, every, calls in EVERY_S) < 4


def test_a_row_has_medians_of_the_rounds() -> None:
    at_rest = Rest()
    at_rest.cpu_ms, at_rest.calls, at_rest.look_ms, at_rest.mib = [5.0, 7.0, 6.0], 3.14, 121.4, (57.0, 40.0)
    text = page(argparse.Namespace(rounds=3, seconds=20.0, runtime="engine", kubelet=False), {110: at_rest})
    assert "| 110  | 3.1            | 6.0 (5.5-6.5)           | 121                       | 57.0    | 40.0    |" in text
