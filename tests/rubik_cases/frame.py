"""Stages of the frame: the configuration file, who is offline, cgroups of pods and containers, pods from events."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.pods.nri import NriPods
from nri.agent.pods.running import running
from nri.agent.rubik import preemption
from nri.agent.rubik.pods import OFFLINE, class_of
from nri.agent.rubik.profile import READER, SERVICES
from nri.agent.rubik.service import Service, Services
from nri.agent.transports.hook_plugin import HookPlugin
from nri.api import messages as m
from nri.config import Source
from nri.config.layers import parse_layer
from nri.errors import ConfigError
from nri.host.cgroups import drivers
from nri.host.cgroups.drivers import Driver
from nri.host.pressure import parse_pressure
from nri.host.usage import parse_flat_keyed
from tests.rubik_cases.world import CaseWorld, Json

__all__ = ["CONFIGS", "STAGES"]

_ERROR: Final = {"error": True}


# -- the configuration file -------------------------------------------------------------------------------------------


def _source(text: str) -> Source:
    return Source("config.json", text, "json")


def _plain(value: Any) -> Any:
    """A settings object as its block has it; what is not set is left out."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    fields = [(name, getattr(value, name)) for name in value.__dataclass_fields__]
    unset = (None, 0) if isinstance(value, preemption.Net) else (None,)
    return {name: _plain(item) for name, item in fields if item not in unset}


def _config_load(folder: Path, case: Json, expected: Json) -> Json:
    if case["text"] is None:  # the agent is given the name of a file
        return _ERROR if _checked(folder / "config.json") else {}
    source = _source(case["text"])
    try:
        file = READER.read(parse_layer(source).tree if case["text"].strip() != "null" else None, source)
    except ConfigError:
        return _ERROR
    agent = {"enabledFeatures": None, **_plain(file.agent)}
    return {"agent": agent, "blocks": len(file.blocks), "error": False}


def _checked(path: Path) -> bool:
    """Whether a file cannot be read."""
    try:
        path.read_text()
    except OSError:
        return True
    return False


def _agent(**keys: Any) -> Json:
    try:
        READER.layer(_source(json.dumps({"agent": keys})))
    except ConfigError:
        return _ERROR
    return {"error": False}


def _log_config(folder: Path, case: Json, expected: Json) -> Json:
    return _agent(**case)


def _driver(folder: Path, case: Json, expected: Json) -> Json:
    return _agent(cgroupDriver=case["driver"])


def _services(folder: Path, case: Json, expected: Json) -> Json:
    """The services that a file switches on, on a machine without cost models and control of the network."""
    try:
        layer = READER.layer(_source(case["text"]))
    except ConfigError:
        return _ERROR
    names = sorted(layer.layer.tree["gates"]) if layer is not None else []
    tree = json.loads(case["text"])
    world = CaseWorld(folder, **{name: tree.get(name) for name in names})
    world.round()
    missing = [one for one in world.problems if one.startswith(("ioCost: ", "preemption: offline pods have a class"))]
    return _ERROR if missing else {"error": False, "services": names}


def _config(service: str) -> Any:
    """The stage of a service's block."""

    def run(folder: Path, case: Json, expected: Json) -> Json:
        text = "null" if case["block"] is None else case["block"]
        source = _source(f'{{"agent": {{"enabledFeatures": ["{service}"]}}, "{service}": {text}}}')
        try:
            block = READER.services(READER.read(parse_layer(source).tree, source))[service]
        except ConfigError:
            return _ERROR
        if service == "preemption" and "net" in block.resource:
            module = dict.fromkeys(("enable", "disable", "waterline", "bandwidth"), "")
            files = {f"proc/net_qos_{name}": "" for name in module} if case["net_qos_module"] else {}
            world = CaseWorld(folder, files, preemption=json.loads(text))
            world.round()
            if any("net_qos_enable" in problem for problem in world.problems):
                return _ERROR
        return {"error": False} if service == "dynMemory" else {"config": _plain(block), "error": False}

    return run


BLOCKS: Final = {row.name: row.block for row in SERVICES}
CONFIGS = {name: {"config": _config(name)} for name, block in BLOCKS.items() if block is not None and name != "ioCost"}


def _config_of_nothing(service: str) -> Any:
    """The stage of a service without a block: it is switched on by its name."""

    def run(folder: Path, case: Json, expected: Json) -> Json:
        return {"error": f'"{service}"' not in json.dumps(_services_of(service))}

    return run


def _services_of(service: str) -> list[str]:
    source = _source(json.dumps({"agent": {"enabledFeatures": [service]}}))
    return list(READER.services(READER.read(parse_layer(source).tree, source)))


CONFIGS |= {name: {"config": _config_of_nothing(name)} for name, block in BLOCKS.items() if block is None}


# -- pods -------------------------------------------------------------------------------------------------------------


def _classify(folder: Path, case: Json, expected: Json) -> Json:
    pod = Pod(annotations=case["annotations"] or {}, labels=case["labels"] or {})
    return {"offline": class_of(pod) == OFFLINE}


def _is_offline(pod: Pod) -> bool:
    return class_of(pod) == OFFLINE


def _listed(folder: Path, manifest: Json, driver: str) -> Pod | None:
    """A pod as rounds have it, of an object of the API; None if it does not run, or makes no sense."""
    world = CaseWorld(folder)
    pods = list(running([manifest], world.executor.hierarchies, driver))
    return pods[0] if pods else None


def _static(annotations: Json, config_hash: str | None) -> Json:
    """The annotations of a pod; those of a static pod are the ones that a kubelet gives its mirror."""
    if config_hash is None:
        return annotations
    mirror = {"kubernetes.io/config.mirror": config_hash, "kubernetes.io/config.hash": config_hash}
    return {**annotations, **mirror, "kubernetes.io/config.source": "file"}


def _pod(case: Json, statuses: list[Json]) -> Json:
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": case["uid"],
            "annotations": _static({}, case.get("config_hash")),
        },
        "spec": {"containers": [{"name": one["name"]} for one in statuses]},
        "status": {"phase": "Running", "qosClass": case["qos_class"], "containerStatuses": statuses},
    }


def _pod_path(folder: Path, case: Json, expected: Json) -> Json:
    pod = _listed(folder, _pod(case, []), case["driver"])
    return {"path": "" if pod is None else pod.folder}


def _container_path(folder: Path, case: Json, expected: Json) -> Json:
    pod = _listed(folder, _pod(case, [{"name": "c", "containerID": case["container_id"]}]), case["driver"])
    paths = [container.folder for container in pod.containers] if pod is not None else []
    return {"paths": paths or None}


def _join_container(folder: Path, case: Json, expected: Json) -> Json:
    schemes = {
        "": "containerd",
        "cri-containerd": "containerd",
        "crio": "cri-o",
        "docker": "docker",
        "isulad": "iSulad",
    }
    try:
        container = f"{schemes[case['prefix']]}://{case['container_id']}"
        path = drivers.container_path(Driver(case["driver"]), case["pod_path"], container)
    except (KeyError, ValueError):
        return _ERROR
    return {"path": path}


def _pod_extract(folder: Path, case: Json, expected: Json) -> Json:
    manifest = case["pod"]
    runs = (manifest.get("status") or {}).get("phase") == "Running"
    meta = dict(manifest["metadata"])
    hashed = (meta.get("annotations") or {}).get("kubernetes.io/config.hash")
    if hashed:
        meta["annotations"] = _static(meta["annotations"], hashed)
    listed = _listed(folder, {**manifest, "metadata": meta}, case["driver"])
    if listed is None:
        return {"running": False}
    pod, containers = listed, []
    for container in sorted(pod.containers, key=lambda one: one.id):
        memory = {part: max(listed.amount(container.name, part, "memory"), 0) for part in ("requests", "limits")}
        amounts = {
            "requests": {"memory": memory["requests"]},
            "limits": {"cpu": container.cpu_limit, "memory": memory["limits"]},
        }
        containers.append({"id": container.id.partition("://")[2], "name": container.name,
                           "cgroup_path": container.folder, **amounts})  # fmt: skip
    shown = {
        "uid": hashed or pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "cgroup_path": pod.folder,
        "host_network": pod.host_network,
        "offline": _is_offline(pod),
        "containers": containers,
    }
    return {"pod": shown, "running": runs}


# -- pods over NRI ----------------------------------------------------------------------------------------------------


class _Runtime:
    """The agent's plugin, and the pods that it follows."""

    def __init__(self, folder: Path) -> None:
        world = CaseWorld(folder)
        self.pods = NriPods(world.settings)
        self.plugin = HookPlugin(replace(world.parts, pods=self.pods, profile=replace(world.parts.profile, hooks=())))
        self.hierarchies = world.executor.hierarchies

    def listed(self, driver: str) -> list[Pod]:
        """The pods as rounds have them."""
        return list(running(self.pods.pods(), self.hierarchies, driver))


def _sandbox(name: str, parent: str = "", **words: Any) -> m.PodSandbox:
    pod = m.PodSandbox(id=f"sandbox-{name}", uid=words.pop("uid", f"uid-{name}"), name=name, namespace="n", **words)
    pod.linux.cgroup_parent = parent or f"/kubepods/pod{name}"
    return pod


def _container(pod: m.PodSandbox, name: str, path: str) -> m.Container:
    container = m.Container(id=name, pod_sandbox_id=pod.id, name=name, state=m.ContainerState.CONTAINER_RUNNING)
    container.linux.cgroups_path = path
    return container


def _nri_container_path(folder: Path, case: Json, expected: Json) -> Json:
    runtime = _Runtime(folder)
    pod = _sandbox("p")
    runtime.plugin.synchronize([pod], [_container(pod, "c", case["cgroups_path"])])
    (listed,) = runtime.listed(case["driver"])
    paths = [container.folder for container in listed.containers]
    return {"path": paths[0]} if paths else _ERROR


def _nri_pod(folder: Path, case: Json, expected: Json) -> Json:
    runtime = _Runtime(folder)
    words = {"uid": case["uid"], "annotations": case.get("annotations") or {}}
    pod = _sandbox(case["id"], case.get("cgroup_parent") or "", **words)
    if case.get("cgroup_parent") is None:
        pod.ClearField("linux")
    runtime.plugin.synchronize([pod], [])
    (listed,) = runtime.listed("systemd")
    pod = listed
    return {
        "limits": {},
        "requests": {},
        "cgroup_path": pod.folder,
        "host_network": pod.host_network,
        "offline": _is_offline(pod),
    }


def _nri_events(folder: Path, case: Json, expected: Json) -> Json:
    """The pods that are known after each event; rounds look at all of them, so that no event reaches a service."""
    runtime, steps = _Runtime(folder), []
    runtime.plugin.synchronize([], [])
    for event in case["events"]:
        pod = _sandbox(event.get("pod") or "none")
        container = _container(pod, event.get("container") or "", event.get("cgroups_path") or "")
        _nri_event(runtime.plugin, event["event"], pod, container)
        known_entry = {
            listed["metadata"]["uid"]: sorted(one["name"] for one in listed["spec"]["containers"])
            for listed in runtime.pods.pods()
        }
        steps.append({"pods": known_entry})
    return {"steps": steps}


def _nri_event(plugin: HookPlugin, event: str, pod: m.PodSandbox, container: m.Container) -> None:
    if event == "sync_pods":
        plugin.synchronize([pod], [])
    elif event == "sync_containers":
        plugin.synchronize([pod], [container])
    elif event == "run_pod":
        plugin.run_pod_sandbox(pod)
    elif event == "remove_pod":
        plugin.remove_pod_sandbox(pod)
    elif event == "start_container":
        plugin.create_container(pod, container)
        plugin.post_create_container(pod, container)
        plugin.start_container(pod, container)
    elif event == "stop_container":
        plugin.stop_container(pod, container)
    elif event == "remove_container":
        plugin.remove_container(pod, container)


def _api_events(folder: Path, case: Json, expected: Json) -> Json:
    """The pods that run after each event, as rounds have them."""
    world, steps = CaseWorld(folder), []
    objects: dict[str, Json] = {}
    for event in case["events"]:
        name = event["pod"]
        if event["event"] == "delete":
            objects.pop(name, None)
        else:
            status = [{"name": "c", "containerID": f"containerd://{name}-c"}]
            objects[name] = {
                "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": event["phase"], "qosClass": "Burstable", "containerStatuses": status},
            }
        pods = list(running(objects.values(), world.executor.hierarchies, "cgroupfs"))
        pods = [pod for pod in pods if pod.manifest["status"]["phase"] == "Running"]
        known_entry = {pod.uid: [one.id.partition("://")[2] for one in pod.containers] for pod in pods}
        steps.append({"pods": known_entry})
    return {"steps": steps}


# -- files of the kernel ----------------------------------------------------------------------------------------------


def _cpu_stat(folder: Path, case: Json, expected: Json) -> Json:
    try:
        actual = parse_flat_keyed(case["text"])
    except ValueError:
        return _ERROR
    if any(not -(1 << 63) <= value < 1 << 63 for value in actual.values()):
        return _ERROR
    return {"error": False, **{key: actual.get(key, 0) for key in ("nr_periods", "nr_throttled", "throttled_time")}}


def _pressure(folder: Path, case: Json, expected: Json) -> Json:
    try:
        actual = parse_pressure(case["text"])
    except ValueError:
        return _ERROR
    keys = ("avg10", "avg60", "avg300", "total")
    shown = {name: dict(zip(keys, getattr(actual, name) or (0, 0, 0, 0), strict=True)) for name in ("some", "full")}
    return {"error": False, **shown}


# -- services that fail -----------------------------------------------------------------------------------------------


class _Counted(Service):
    """A service that counts how often it has a round, and for which pods; its first rounds may fail."""

    def __init__(self, world: CaseWorld, name: str, fails: int = 0) -> None:
        super().__init__(world.settings, [])
        self.name, self._fails = name, fails
        self.rounds: list[list[str]] = []

    def is_needed(self, rules: Services) -> bool:
        """Whether there is work: always."""
        return True

    def round(self, created: Round[Services]) -> None:
        """Count a round."""
        self.rounds.append([pod.uid for pod in created.pods])
        if len(self.rounds) <= self._fails:
            raise OSError(22, "the case has it fail")


def _dispatch(folder: Path, case: Json, expected: Json) -> Json:
    """A pod that comes, changes and goes: one round each, for each service."""
    world = CaseWorld(folder, cpi=None)
    bad, good = _Counted(world, "cpi", case.get("failing_additions") or 0), _Counted(world, "psi")
    world.use(bad, good)
    pod = {"name": "p", "uid": "p", "cgroup_path": "kubepods/podp"}
    if "payload" in case:
        world.source.replace([case["payload"]])
        world.round()
        return {"add_calls": sum(map(len, bad.rounds))}
    for pods in ([pod], [{**pod, "labels": {"a": "b"}}], []):
        world.run(*pods)
        world.round()
    added, updated, deleted = bad.rounds
    return {
        "add_calls": len(added),
        "update_calls": len(updated),
        "delete_calls": int(not deleted),
        "other_service_add_calls": len(good.rounds[0]),
    }


def _setup(folder: Path, case: Json, expected: Json) -> Json:
    """Two services, of which one fails in its first round: it is reported, and the other has its rounds."""
    world = CaseWorld(folder, cpi=None)
    bad = _Counted(world, "cpi", int(bool(case.get("one_start_fails"))))
    good = _Counted(world, "psi")
    world.use(bad, good)
    world.round()
    error = bool(world.problems)
    world.round()
    return {"error": error, "rounds": [len(bad.rounds), len(good.rounds)], "error_later": bool(world.problems)}


STAGES: dict[str, Any] = {
    "config_load": _config_load,
    "log_config": _log_config,
    "services": _services,
    "classify": _classify,
    "pod_path": _pod_path,
    "container_path": _container_path,
    "nri_container_path": _nri_container_path,
    "join_container": _join_container,
    "driver": _driver,
    "pod_extract": _pod_extract,
    "nri_pod": _nri_pod,
    "cpu_stat": _cpu_stat,
    "pressure": _pressure,
    "nri_events": _nri_events,
    "api_events": _api_events,
    "dispatch": _dispatch,
    "setup": _setup,
}
