"""Values that a plugin sets on our engine are in cgroup v2, at creation and by updates."""

from __future__ import annotations

from typing import Any

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from tests.engine.node import CGROUPS, Node, Recorder
from tests.guest.test_oci import NOT_UPDATED
from tests.real.controls import CONTROLS, MIB, call, together


def files(node: Node, container: str) -> dict[str, str]:
    """What all the controls' files of a container say."""
    folder = CGROUPS / node.engine.inventory.container(container).record.cgroup_path.lstrip("/")
    return {name: (folder / control.file).read_text().strip() for name, control in CONTROLS.items()}


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_all_controls_of_a_plugin_are_in_the_cgroup(node: Node, handler: str) -> None:
    plugin: Recorder = node.plugin()
    limit = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(memory_limit_in_bytes=128 * MIB))
    pod = node.pod(handler=handler)
    other = node.run(pod, "other", linux=limit)
    plugin.on["create"] = lambda *_: (call(nri.Adjustment(), together("setters")), [])
    container_id = node.run(pod, "made", linux=limit)
    assert files(node, container_id) == {name: control.text for name, control in CONTROLS.items()}

    def update(_: Any, container: Any) -> list[nri.Update]:
        return [call(nri.Update(container.id), together("update"))]

    plugin.on["update"] = update
    node.engine.resource_updates.update_container(
        container_id, pb.LinuxContainerResources(memory_limit_in_bytes=120 * MIB)
    )
    left_out = {name for name, runtime in NOT_UPDATED.items() if runtime == handler}
    updated = {name: control.updated for name, control in CONTROLS.items() if name not in left_out}
    assert {name: text for name, text in files(node, container_id).items() if name in updated} == updated

    plugin.runtime.update(call(nri.Update(other), together("update"))).result(60)
    assert {name: text for name, text in files(node, other).items() if name in updated} == updated
