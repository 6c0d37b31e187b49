"""The engine's replies to Status, Version and RuntimeConfig."""

from __future__ import annotations

import json

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.runtime_info import Facts, RuntimeInfoCalls
from nri.engine.support.errors import EngineError


class QuietCall:
    """A call with the metadata of a client, or without metadata."""

    def __init__(self, **metadata: bytes) -> None:
        self._metadata = metadata

    def metadata(self, key: str) -> bytes:
        return self._metadata.get(key.replace("-", "_"), b"")


CALL = QuietCall()
RELOAD = QuietCall(nri_reload_bin=b"1")


def calls(driver: str = "cgroupfs") -> RuntimeInfoCalls:
    ready = pb.RuntimeCondition(type="RuntimeReady", status=True)
    features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    handlers = {"": features, "runc": features}
    return RuntimeInfoCalls(Facts(lambda: [ready], lambda: handlers, driver, lambda: {"a": 1}, lambda cidr: None))


def test_a_status_has_conditions_and_handlers_and_a_verbose_form() -> None:
    info_calls = calls()
    proc_status = info_calls.status(pb.StatusRequest(), CALL)  # type: ignore[arg-type]
    assert [row.type for row in proc_status.status.conditions] == ["RuntimeReady"] and not proc_status.info
    assert [row.name for row in proc_status.runtime_handlers] == ["", "runc"]
    assert proc_status.runtime_handlers[1].features.recursive_read_only_mounts
    wide = info_calls.status(pb.StatusRequest(verbose=True), CALL)  # type: ignore[arg-type]
    assert json.loads(wide.info["a"]) == 1


def test_the_pod_cidr_is_kept_until_a_new_one_arrives() -> None:
    info_calls = calls()
    for cidr in ("10.0.0.0/24", ""):
        network = pb.NetworkConfig(pod_cidr=cidr)
        request = pb.UpdateRuntimeConfigRequest(runtime_config=pb.RuntimeConfig(network_config=network))
        info_calls.update_runtime_config(request, CALL)  # type: ignore[arg-type]
    info = info_calls.status(pb.StatusRequest(verbose=True), CALL).info  # type: ignore[arg-type]
    assert json.loads(info["podCIDR"]) == "10.0.0.0/24"


def test_the_cgroup_driver_is_reported() -> None:
    for driver, expected in (("cgroupfs", pb.CGROUPFS), ("systemd", pb.SYSTEMD)):
        assert calls(driver).runtime_config(pb.RuntimeConfigRequest(), CALL).linux.cgroup_driver == expected  # type: ignore[arg-type]


def test_a_client_that_asks_for_it_reloads_the_settings() -> None:
    reloads: list[None] = []
    info_calls = RuntimeInfoCalls(Facts(list, dict, "cgroupfs", dict, lambda cidr: None, lambda: reloads.append(None)))
    info_calls.update_runtime_config(pb.UpdateRuntimeConfigRequest(), CALL)  # type: ignore[arg-type]
    assert not reloads
    info_calls.update_runtime_config(pb.UpdateRuntimeConfigRequest(), RELOAD)  # type: ignore[arg-type]
    assert reloads == [None]


def test_the_socket_of_a_domain_does_not_reload() -> None:
    with pytest.raises(EngineError, match="at the engine's own socket"):
        calls().update_runtime_config(pb.UpdateRuntimeConfigRequest(), RELOAD)  # type: ignore[arg-type]
