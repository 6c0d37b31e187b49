"""The engine's answers about itself."""

from __future__ import annotations

import json

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.runtime_info import Facts, RuntimeInfoCalls

CALL = None


def calls(driver: str = "cgroupfs") -> RuntimeInfoCalls:
    ready = pb.RuntimeCondition(type="RuntimeReady", status=True)
    features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    return RuntimeInfoCalls(Facts(lambda: [ready], lambda: {"": features, "runc": features}, driver, lambda: {"a": 1}))


def test_a_status_has_conditions_and_handlers_and_more_for_those_who_ask() -> None:
    info_calls = calls()
    proc_status = info_calls.status(pb.StatusRequest(), CALL)  # type: ignore[arg-type]
    assert [row.type for row in proc_status.status.conditions] == ["RuntimeReady"] and not proc_status.info
    assert [row.name for row in proc_status.runtime_handlers] == ["", "runc"]
    assert proc_status.runtime_handlers[1].features.recursive_read_only_mounts
    wide = info_calls.status(pb.StatusRequest(verbose=True), CALL)  # type: ignore[arg-type]
    assert json.loads(wide.info["a"]) == 1


def test_the_range_of_addresses_is_kept_until_another_one_comes() -> None:
    info_calls = calls()
    for cidr in ("10.0.0.0/24", ""):
        network = pb.NetworkConfig(pod_cidr=cidr)
        request = pb.UpdateRuntimeConfigRequest(runtime_config=pb.RuntimeConfig(network_config=network))
        info_calls.update_runtime_config(request, CALL)  # type: ignore[arg-type]
    info = info_calls.status(pb.StatusRequest(verbose=True), CALL).info  # type: ignore[arg-type]
    assert json.loads(info["podCIDR"]) == "10.0.0.0/24"


def test_the_cgroup_driver_is_said_in_the_kubelets_words() -> None:
    for driver, expected in (("cgroupfs", pb.CGROUPFS), ("systemd", pb.SYSTEMD)):
        assert calls(driver).runtime_config(pb.RuntimeConfigRequest(), CALL).linux.cgroup_driver == expected  # type: ignore[arg-type]
