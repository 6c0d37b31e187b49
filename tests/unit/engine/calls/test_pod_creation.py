"""The calls on pods, on a dry engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls import pod_creation
from nri.engine.calls.pod_creation import PodSteps
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.processes import Processes
from nri.engine.network.results import NetworkAttachment, PortMapping
from nri.engine.state import PodRecord, PodState
from nri.engine.support.errors import AlreadyExists, EngineError, NotFound
from nri.errors import NriError, RequestError

WHOLE = ["run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox"]


def test_a_complete_lifecycle_has_each_event_once(dry: Any) -> None:
    with dry.engine.events.subscribe() as listener:
        pod = dry.pod()
        assert dry.engine.inventory.pod(pod).record.state is PodState.READY
        for _ in range(2):
            dry.engine.pod_removal.stop(pod)
        for _ in range(2):
            dry.engine.pod_removal.remove(pod)
        kinds = [listener.get(1).container_event_type for _ in range(4)]
    assert dry.told.of("pod") == WHOLE
    assert kinds == [0, 1, 2, 3]
    with pytest.raises(NotFound):
        dry.engine.inventory.pod(pod)


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_a_pod_without_a_name_is_refused(dry: Any, field: str) -> None:
    config = dry.pod_config()
    config.metadata.ClearField(field)
    with pytest.raises(RequestError, match=f"metadata.{field}"):
        dry.engine.pod_creation.run(config)


def test_invalid_pods_are_refused_before_any_step(dry: Any) -> None:
    config = dry.pod_config()
    with pytest.raises(RequestError, match="runtime_handler"):
        dry.engine.pod_creation.run(config, "kata")
    options = config.linux.security_context.namespace_options
    options.userns_options.mode = pb.POD
    ids = [pb.IDMapping(host_id=100_000, container_id=0, length=65_536)]
    options.userns_options.uids.extend(ids)
    options.userns_options.gids.extend(ids)
    options.ipc = pb.NODE
    with pytest.raises(RequestError, match=r'ipc: "NODE": must not be shared with the node'):
        dry.engine.pod_creation.run(config)
    options.ClearField("userns_options")
    options.ipc = 9
    with pytest.raises(RequestError, match="ipc"):
        dry.engine.pod_creation.run(config)
    options.ipc = pb.POD
    config.linux.sysctls["vm.swappiness"] = "1"
    with pytest.raises(RequestError, match="sysctls"):
        dry.engine.pod_creation.run(config)
    config.linux.ClearField("sysctls")
    config.log_directory = "logs/of/pods"  # of the engine's own working folder
    with pytest.raises(RequestError, match="log_directory"):
        dry.engine.pod_creation.run(config)
    assert dry.told.events == [] and not [*(dry.config.root / "records/pods").iterdir()]


def test_a_name_is_free_only_after_the_removal(dry: Any) -> None:
    pod = dry.pod()
    with pytest.raises(AlreadyExists):
        dry.pod()
    assert dry.engine.inventory.pod(pod).record.state is PodState.READY
    dry.engine.pod_removal.stop(pod)
    with pytest.raises(AlreadyExists):
        dry.pod()
    dry.engine.pod_removal.remove(pod)
    dry.pod()


def test_a_plugins_refusal_undoes_the_pod(dry: Any) -> None:
    def refuse(_: Any) -> None:
        raise nri.Reject("not here")

    dry.told.on["run_pod_sandbox"] = refuse
    with pytest.raises(NriError, match="not here"):
        dry.pod()
    assert dry.told.of("pod") == WHOLE and dry.engine.inventory.pods() == []
    assert not [*(dry.config.state / "pods").iterdir()]


def test_a_failed_undo_leaves_a_pod_that_can_be_stopped(dry: Any) -> None:
    pod = dry.pod()
    network = dry.engine.machinery.cni
    network.delete, usual = lambda _: (_ for _ in ()).throw(EngineError("busy")), network.delete
    with pytest.raises(EngineError, match="network: busy"):
        dry.engine.pod_removal.stop(pod)
    assert dry.engine.inventory.pod(pod).record.state is PodState.STOPPING
    network.delete = usual
    dry.engine.pod_removal.remove(pod)
    assert dry.told.of("pod") == WHOLE


def test_a_pod_with_a_failed_removal_can_be_stopped_and_removed(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    with monkeypatch.context() as patch:
        patch.setattr(
            "nri.engine.calls.container_creation.remove_bundle", lambda _: (_ for _ in ()).throw(OSError("busy"))
        )
        with pytest.raises(EngineError, match="busy"):
            dry.engine.pod_removal.remove(pod)
    assert dry.engine.inventory.pod(pod).record.state is PodState.REMOVING
    # As a kubelet does before each removal: refused that, it would never come to the removal.
    dry.engine.container_removal.stop(container_id)
    dry.engine.pod_removal.stop(pod)
    dry.engine.pod_removal.remove(pod)
    assert dry.told.of("pod") == WHOLE and dry.engine.inventory.pods() == []


def test_new_resources_are_sent_to_plugins_recorded_and_reported(dry: Any) -> None:
    pod = dry.pod()
    overhead, resources = pb.LinuxContainerResources(cpu_shares=7), pb.LinuxContainerResources(cpu_shares=9)
    dry.engine.resource_updates.update_pod(pod, overhead, resources)
    assert dry.engine.inventory.pod(pod).record.resources == {
        "overhead": {"cpu_shares": "7"},
        "resources": {"cpu_shares": "9"},
    }
    assert dry.told.of("pod")[1:] == ["update_pod_sandbox", "post_update_pod_sandbox"]
    assert dry.engine.inventory.pod(pod).record.network == {}


@pytest.fixture
def steps(dry: Any) -> PodSteps:
    engine = dry.engine
    processes = Processes(engine.inventory, engine.machinery)
    exit_handler = ExitHandler(engine.inventory, engine.machinery, engine.domain, processes, engine.events)
    resources: Any = None  # steps of pods change none
    return PodSteps(
        Parts(engine.inventory, engine.machinery, processes, resources, engine.domain, exit_handler, engine.events)
    )


def config(**options: Any) -> pb.PodSandboxConfig:
    pod_sandbox_config = pb.PodSandboxConfig(hostname="web")
    for key, value in options.items():
        setattr(pod_sandbox_config.linux.security_context.namespace_options, key, value)
    return pod_sandbox_config


def test_a_pod_on_the_host_network_has_the_nodes_host_name(dry: Any, steps: PodSteps) -> None:
    own_network, nodes = PodRecord("p1"), PodRecord("p2")
    steps.prepare(own_network, config())
    steps.prepare(nodes, config(network=pb.NODE))
    assert own_network.hostname == "web"
    assert nodes.hostname == dry.engine.machinery.machine.hostname
    assert own_network.cgroup_path == own_network.cgroup_parent == dry.engine.machinery.pod_cgroup("p1")


@pytest.mark.parametrize("field", ["network", "ipc", "pid"])
def test_an_unknown_namespace_mode_is_an_error_with_its_field(steps: PodSteps, field: str) -> None:
    with pytest.raises(RequestError, match=f"{field}: 9: is not a mode of namespaces"):
        steps.prepare(PodRecord("p1"), config(**{field: 9}))


@pytest.mark.parametrize("field", ["ipc", "pid"])
def test_a_pod_whose_ids_are_mapped_shares_no_ipc_and_processes_with_the_node(steps: PodSteps, field: str) -> None:
    pod_config = config(**{field: pb.NODE})
    users = pod_config.linux.security_context.namespace_options.userns_options
    users.mode = pb.POD
    for rows in (users.uids, users.gids):
        rows.add(host_id=100_000, container_id=0, length=65_536)
    with pytest.raises(RequestError, match=f"{field}.*must not be shared"):
        steps.prepare(PodRecord("p1"), pod_config)


def test_a_stop_undoes_all_steps_except_the_folders(dry: Any, steps: PodSteps) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    names = [step.name for step in steps.of(entry)]
    assert names == ["folders", "namespaces", "network", "files", "holder"]
    assert [step.name for step in steps.of(entry, only_running=True)] == names[1:]


def test_the_process_of_a_pod_is_killed_before_the_runtime_deletes_it(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that kills the process checks for its end only ten times a second."""
    pod_id, steps_ = dry.pod(), list[str]()
    conmon = dry.engine.machinery.conmon
    remove = conmon.remove
    monkeypatch.setattr(pod_creation, "send", lambda bundle, pod, pid, word, _: steps_.append(word))
    monkeypatch.setattr(conmon, "remove", lambda *requests: (steps_.append("delete"), remove(*requests)))
    dry.engine.pod_removal.stop(pod_id)
    assert steps_ == ["KILL", "delete"]


def test_specs_of_containers_get_the_pods_cgroup(dry: Any, steps: PodSteps) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    pod = steps.spec_pod(entry)
    assert pod.config.linux.cgroup_parent == entry.record.cgroup_parent != ""
    assert not entry.config.linux.cgroup_parent, "the request stays as it came"


def test_a_network_gets_the_pods_requests_in_cni_form(
    dry: Any, steps: PodSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_ = dry.pod_config()
    config_.port_mappings.add(protocol=pb.UDP, container_port=53, host_port=5353, host_ip="10.0.0.1")
    config_.dns_config.servers.append("10.0.0.53")
    config_.annotations["a"] = "b"
    entry = dry.engine.inventory.pod(dry.engine.pod_creation.run(config_))
    machinery, messages = dry.engine.machinery, {}

    def add(networks: Any, *place: Any, **more: Any) -> NetworkAttachment:
        messages.update(more, networks=[network.name for network in networks], place=place)
        return NetworkAttachment(("10.1.0.5",), (), "", {"ips": []})

    (tmp_path / "10-pods.conflist").write_text('{"name": "pods", "plugins": [{"type": "bridge"}]}')
    networks = replace(machinery.config.network, config_dir=tmp_path)
    monkeypatch.setattr(machinery, "config", replace(machinery.config, network=networks))
    monkeypatch.setattr(machinery, "dry", False)
    monkeypatch.setattr(machinery.cni, "add", add)
    next(step for step in steps.of(entry) if step.name == "network").do()
    assert messages == {
        "networks": ["pods"],
        "place": (entry.id, Path(entry.record.namespace_paths["network"])),
        "arguments": {
            "K8S_POD_NAMESPACE": "n", "K8S_POD_NAME": "pod", "K8S_POD_INFRA_CONTAINER_ID": entry.id,
            "K8S_POD_UID": "u-pod",
        },
        "ports": [PortMapping(5353, 53, "udp", "10.0.0.1")],
        "dns": {"servers": ["10.0.0.53"]},
        "cgroup_path": entry.record.cgroup_parent,
        "pod_annotations": {"a": "b"},
        "bandwidth": {},
    }  # fmt: skip
    assert (entry.record.ips, entry.record.network) == (["10.1.0.5"], {"ips": []})
