"""Records in place of lost ones, on a dry engine; tests/engine/test_damage.py has real containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lost import RECORD_LOST, lost_container, lost_pod
from nri.engine.state import ContainerState, PodState


def bundle(dry: Any, identity: str, spec: object) -> None:
    folder = dry.engine.machinery.places.bundle(identity)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(spec))


def test_a_container_has_the_pod_of_its_spec_and_the_cgroup_of_its_name(dry: Any, tmp_path: Path) -> None:
    (tmp_path / "cgroups/kubepods/pod1/c1").mkdir(parents=True)
    cgroups = Cgroups(v2=True, root=tmp_path / "cgroups")
    rows = {"sandbox-id": "p1", "container-name": "app", "sandbox-name": "web", "sandbox-namespace": "shop"}
    bundle(dry, "c1", {"annotations": {f"io.kubernetes.cri.{key}": text for key, text in rows.items()}})
    container = lost_container("c1", "it cannot be read", dry.engine.machinery, cgroups)
    assert (container.pod_id, container.cgroup_path, container.state) == (
        "p1", "/kubepods/pod1/c1", ContainerState.UNKNOWN,
    )  # fmt: skip
    assert (container.reason, container.message) == (RECORD_LOST, "it cannot be read")
    assert container.config["metadata"] == {"name": "app"}
    pod = lost_pod("p1", dry.engine.machinery, cgroups, [container])
    assert (pod.state, pod.namespace, pod.cgroup_parent) == (PodState.STOPPING, "shop", "/kubepods/pod1")
    assert pod.config["linux"]["cgroup_parent"] == "/kubepods/pod1"  # a client's, which the engine does not remove


@pytest.mark.parametrize(
    "spec", [[], {"annotations": 7}, {"annotations": {"io.kubernetes.cri.sandbox-id": ["p"]}},
             {"annotations": {"io.kubernetes.cri.sandbox-id": "\ud800"}}]
)  # fmt: skip
def test_a_container_without_a_spec_that_can_be_used_has_no_pod(dry: Any, tmp_path: Path, spec: object) -> None:
    bundle(dry, "c1", spec)
    container = lost_container("c1", "", dry.engine.machinery, Cgroups(v2=True, root=tmp_path / "none"))
    assert (container.pod_id, container.cgroup_path, container.runtime_handler) == ("", "", "runc")


def test_a_pod_of_which_nothing_is_known_has_the_cgroup_that_the_engine_gives(dry: Any, tmp_path: Path) -> None:
    pod = lost_pod("p1", dry.engine.machinery, Cgroups(v2=True, root=tmp_path / "none"), [])
    assert pod.config["metadata"] == {"name": "p1"}
    assert pod.cgroup_parent == dry.engine.machinery.pod_cgroup("p1") and pod.config["linux"]["cgroup_parent"] == ""
