"""`balloons` on a machine of sixteen CPUs: one set of CPUs for the containers of a type."""

from __future__ import annotations

from pathlib import Path

import pytest

import nri
from nri.plugins.balloons.plugin import BalloonsPlugin
from nri.testing import FakeRuntime
from tests.support.host_trees import write_files
from tests.support.placement import guest, write_machine
from tests.unit.placement.placing import ask, cpus, create, pod, started

TYPE = {"name": "shop", "namespaces": ["default"], "maxCPUs": 4}


def test_containers_of_a_type_share_a_balloon_that_grows_with_them(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    started(nri_runtime, tmp_path, BalloonsPlugin(), balloonTypes=[TYPE])
    create(nri_runtime, pod("a"), ask("a", 1000))
    before = cpus(nri_runtime)["a"]
    create(nri_runtime, pod("b"), ask("b", 1500))
    after = cpus(nri_runtime)
    assert after["a"] == after["b"] != before


def test_an_unknown_type_is_an_error_with_the_known_types(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    started(nri_runtime, tmp_path, BalloonsPlugin(), balloonTypes=[TYPE])
    asking = pod("a", **{"balloon.balloons": "shops"})
    with pytest.raises(nri.PluginError, match="unknown type of balloons 'shops'; types are reserved, shop, default"):
        nri_runtime.create_container(asking, ask("a", 1000))


def test_an_invalid_group_has_no_effect_and_is_logged(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(nri_runtime, tmp_path, BalloonsPlugin(), balloonTypes=[TYPE | {"groupBy": "${pod/name"}])
    assert "balloonTypes[0].groupBy: it has no effect: '${pod/name': write a reference as ${key}" in caplog.text
    for name in "ab":
        create(nri_runtime, pod(name), ask(name, 1000))
    assert cpus(nri_runtime)["a"] == cpus(nri_runtime)["b"]


def test_annotations_about_hints_have_no_effect_and_are_logged(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(nri_runtime, tmp_path, BalloonsPlugin(), balloonTypes=[TYPE])
    create(nri_runtime, pod("a", topologyhints="wrong", **{"deny.topologyhints": "{paths: [/]}"}), ask("a", 1000))
    for key in ("topologyhints", "deny.topologyhints"):
        assert f"annotation {key}.resource-policy.nri.io has no effect: preferCloseToDevices" in caplog.text
    assert "counts as not given" not in caplog.text


def test_a_balloon_is_near_the_device_of_its_type(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gpu = "/sys/devices/pci0000:00/0000:00:01.0"
    write_machine(tmp_path, guest())
    write_files(tmp_path, {f"{gpu}/local_cpulist": "8-11"})
    places = ["/sys/devices/system/node/node3", gpu, "/sys/devices/none", "podresourceapi:nvidia*"]
    types = [TYPE | {"preferCloseToDevices": places[:1]}, {"name": "other", "preferCloseToDevices": places[1:]}]
    started(nri_runtime, tmp_path, BalloonsPlugin(), balloonTypes=types)
    for name, kind, expected in (("a", "shop", "12-13"), ("b", "other", "10-11")):
        asking = pod(name, **{"balloon.balloons": kind})
        assert nri_runtime.create_container(asking, ask(name, 2000)).adjust.cpuset_cpus == expected
    assert "no CPUs near /sys/devices/none found in /sys" in caplog.text
    assert "balloonTypes[1].preferCloseToDevices[2]: it has no effect" in caplog.text
