"""Values that `nri.oci` writes for adjustments and updates are in cgroup v2, with runc and crun."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nri
from nri.oci import Generator, validate
from tests.real.bundles import Bundles, rootfs
from tests.real.controls import CONTROLS, call, together
from tests.support.needs import need_root, need_tool
from tools.runtimes import cgroups

#: Control -> the runtime that does not read it in an update.
NOT_UPDATED = {"hugetlb.2MB.max": "runc"}
Told = tuple[str, dict[str, tuple[str, str]]]


@pytest.fixture(scope="module", params=["runc", "crun"])
def readings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The runtime, and the content of each control's file after creation and after an update of one container."""
    need_root()
    need_tool(request.param)
    folder = tmp_path_factory.mktemp("controls")
    bundles = Bundles(folder, rootfs(folder / "rootfs"), request.param)
    generator = Generator(bundles.spec("sleep 2000"))
    spec = generator.adjust(call(nri.Adjustment(), together("setters")))
    assert validate(spec) == []
    name = spec["linux"]["cgroupsPath"].lstrip("/")
    bundle = str(bundles.bundle(name, spec))
    try:
        bundles.start(bundle, name)
        created = files(bundles, name)
        message = generator.update(call(nri.Update(name), together("update")))
        bundles.call("update", "--resources", "-", name, stdin=json.dumps(message))
        updated = files(bundles, name)
    finally:
        bundles.call("delete", "--force", name, check=False)
    return request.param, {control: (created[control], updated[control]) for control in CONTROLS}


def files(bundles: Bundles, name: str) -> dict[str, str]:
    """What all the controls' files of a container say."""
    state: dict[str, Any] = json.loads(bundles.call("state", name))
    return {control: cgroups.read_unified(state["pid"], row.file) for control, row in CONTROLS.items()}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_of_an_adjustment_is_in_the_cgroup(readings: Told, name: str) -> None:
    assert readings[1][name][0] == CONTROLS[name].text


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_of_an_update_is_in_the_cgroup(readings: Told, name: str) -> None:
    runtime, text = readings
    control = CONTROLS[name]
    assert text[name][1] == (control.text if NOT_UPDATED.get(name) == runtime else control.updated)
