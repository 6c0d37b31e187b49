"""The parts of a pod, decided before they are made, on a dry engine; tests/engine makes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls import pod_steps
from nri.engine.calls.pod_steps import PodSteps
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.processes import Processes
from nri.engine.network.results import Attached, PortMapping
from nri.engine.state import PodRecord
from nri.errors import RequestError


@pytest.fixture
def steps(dry: Any) -> PodSteps:
    engine = dry.engine
    processes = Processes(engine.inventory, engine.machinery)
    exit_handler = ExitHandler(engine.inventory, engine.machinery, engine.domain, processes, engine.events)
    return PodSteps(engine.machinery, processes, exit_handler)


def config(**options: Any) -> pb.PodSandboxConfig:
    made = pb.PodSandboxConfig(hostname="web")
    for key, value in options.items():
        setattr(made.linux.security_context.namespace_options, key, value)
    return made


def test_a_pod_of_the_nodes_network_has_the_nodes_name(dry: Any, steps: PodSteps) -> None:
    own, nodes = PodRecord("p1"), PodRecord("p2")
    steps.prepare(own, config())
    steps.prepare(nodes, config(network=pb.NODE))
    assert own.hostname == "web"
    assert nodes.hostname == dry.engine.machinery.machine.hostname
    assert own.cgroup_path == own.cgroup_parent == dry.engine.machinery.pod_cgroup("p1")


@pytest.mark.parametrize("field", ["network", "ipc", "pid"])
def test_a_mode_that_a_pod_cannot_have_names_its_field(steps: PodSteps, field: str) -> None:
    with pytest.raises(RequestError, match=f"{field}.*is not a mode of a pod"):
        steps.prepare(PodRecord("p1"), config(**{field: pb.TARGET}))


@pytest.mark.parametrize("field", ["network", "ipc", "pid"])
def test_a_pod_whose_ids_are_mapped_shares_nothing_with_the_node(steps: PodSteps, field: str) -> None:
    made = config(**{field: pb.NODE})
    users = made.linux.security_context.namespace_options.userns_options
    users.mode = pb.POD
    for rows in (users.uids, users.gids):
        rows.add(host_id=100_000, container_id=0, length=65_536)
    with pytest.raises(RequestError, match=f"{field}.*cannot be shared"):
        steps.prepare(PodRecord("p1"), made)


def test_what_is_taken_back_at_a_stop_is_all_but_the_folders(dry: Any, steps: PodSteps) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    names = [step.name for step in steps.of(entry)]
    assert names == ["folders", "namespaces", "network", "files", "holder"]
    assert [step.name for step in steps.of(entry, only_running=True)] == names[1:]


def test_the_process_of_a_pod_is_killed_before_a_runtime_is_asked_to_delete_it(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that has to kill it looks only ten times a second whether it has ended."""
    made, done = dry.pod(), list[str]()
    conmon = dry.engine.machinery.conmon
    remove = conmon.remove
    monkeypatch.setattr(pod_steps, "send", lambda bundle, pod, pid, word, _: done.append(word))
    monkeypatch.setattr(conmon, "remove", lambda *asked: (done.append("delete"), remove(*asked)))
    dry.engine.pods.stop(made)
    assert done == ["KILL", "delete"]


def test_specs_of_its_containers_get_the_cgroup_that_was_decided(dry: Any, steps: PodSteps) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    pod = steps.spec_pod(entry)
    assert pod.config.linux.cgroup_parent == entry.record.cgroup_parent != ""
    assert not entry.config.linux.cgroup_parent, "the request stays as it came"


def test_a_network_is_told_what_a_pod_asks_for_as_cni_has_it(
    dry: Any, steps: PodSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = dry.pod_config()
    asked.port_mappings.add(protocol=pb.UDP, container_port=53, host_port=5353, host_ip="10.0.0.1")
    asked.dns_config.servers.append("10.0.0.53")
    asked.annotations["a"] = "b"
    entry = dry.engine.inventory.pod(dry.engine.pods.run(asked))
    machinery, told = dry.engine.machinery, {}

    def add(network: Any, *place: Any, **more: Any) -> Attached:
        told.update(more, network=network.name, place=place)
        return Attached(("10.1.0.5",), (), "", {"ips": []})

    (tmp_path / "10-pods.conflist").write_text('{"name": "pods", "plugins": [{"type": "bridge"}]}')
    networks = replace(machinery.config.network, config_dir=tmp_path)
    monkeypatch.setattr(machinery, "config", replace(machinery.config, network=networks))
    monkeypatch.setattr(machinery, "dry", False)
    monkeypatch.setattr(machinery.cni, "add", add)
    next(step for step in steps.of(entry) if step.name == "network").do()
    assert told == {
        "network": "pods",
        "place": (entry.id, Path(entry.record.namespace_paths["network"])),
        "arguments": {
            "K8S_POD_NAMESPACE": "n", "K8S_POD_NAME": "pod", "K8S_POD_INFRA_CONTAINER_ID": entry.id,
            "K8S_POD_UID": "u-pod",
        },
        "ports": [PortMapping(5353, 53, "udp", "10.0.0.1")],
        "dns": {"servers": ["10.0.0.53"]},
        "cgroup_path": entry.record.cgroup_parent,
        "pod_annotations": {"a": "b"},
    }  # fmt: skip
    assert (entry.record.ips, entry.record.network) == (["10.1.0.5"], {"ips": []})
