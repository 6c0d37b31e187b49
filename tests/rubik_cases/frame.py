"""Stages of the frame: the configuration file, who is offline, cgroups of pods and containers, pods from events."""

from __future__ import annotations

import json
from typing import Any

from nri.config import Source
from nri.config.complaint import WrongValue
from nri.errors import ConfigError
from nri.host.cgroups import expand
from nri.host.pressure import parse_pressure
from nri.host.usage import parse_flat_keyed
from nri.kube.quantity import capped, ceil
from nri.policies import paths
from nri.policies.rubik import pods, settings
from nri.policies.rubik.pods import Container, Pod
from tests.rubik_cases.pods import Mirror, from_manifest

__all__ = ["CONFIGS", "STAGES", "block"]

Json = dict[str, Any]
_ERROR = {"error": True}


def _plain(value: Any) -> Any:
    """A settings object as its block has it; what is not set is left out."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    found = [(name, getattr(value, name)) for name in value.__dataclass_fields__]
    unsaid = (None, 0) if isinstance(value, settings.Net) else (None,)
    return {name: _plain(each) for name, each in found if each not in unsaid}


def _config_load(given: Json) -> Json:
    if given["text"] is None:
        return _ERROR
    try:
        file = settings.load(Source("config.json", given["text"], "json"))
    except ConfigError:
        return _ERROR
    agent = {"enabledFeatures": None, **_plain(file.agent)}
    return {"agent": agent, "blocks": len(file.blocks), "error": False}


def _log_config(given: Json) -> Json:
    try:
        settings.Agent(**given).complain()
    except WrongValue:
        return _ERROR
    return {"error": False}


def _driver(given: Json) -> Json:
    return _complains(settings.Agent(cgroupDriver=given["driver"]))


def _complains(agent: settings.Agent) -> Json:
    try:
        agent.complain()
    except WrongValue:
        return _ERROR
    return {"error": False}


def _services(given: Json) -> Json:
    try:
        found = settings.services(settings.load(Source("config.json", given["text"], "json")))
    except ConfigError:
        return _ERROR
    if "ioCost" in found or "net" in getattr(found.get("preemption"), "resource", ()):
        return _ERROR  # the machine of the records had neither cost by cgroup nor control of the network
    return {"error": False, "services": sorted(found)}


def block(service: str, text: str | None) -> Any:
    """Return the settings of a block. Raises ConfigError."""
    if text is None:
        return settings.block_of(service, None, Source("config.json", "", "json"))
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError("config.json", service, str(error)) from None
    return settings.block_of(service, value, Source("config.json", text, "json"))


def config(service: str) -> Any:
    """Return the stage of a block."""

    def run(given: Json) -> Json:
        try:
            made = block(service, given["block"])
        except ConfigError:
            return _ERROR
        if service == "preemption" and "net" in made.resource and not given["net_qos_module"]:
            return _ERROR
        return {"error": False} if service == "dynMemory" else {"config": _plain(made), "error": False}

    return run


CONFIGS = {name: {"config": config(name)} for name, needed in settings.FEATURES.items() if needed and name != "ioCost"}


def _classify(given: Json) -> Json:
    pod = Pod("", annotations=given["annotations"] or {}, labels=given["labels"] or {})
    return {"offline": pods.offline(pod)}


def _pod_path(given: Json) -> Json:
    annotations = {"kubernetes.io/config.hash": given["config_hash"]} if "config_hash" in given else {}
    meta = {"uid": given["uid"], "annotations": annotations}
    pod = from_manifest({"metadata": meta, "status": {"qosClass": given["qos_class"]}}, given["driver"])
    return {"path": pod.folder}


def _container_path(given: Json) -> Json:
    status = {"qosClass": given["qos_class"], "containerStatuses": [{"containerID": given["container_id"]}]}
    pod = from_manifest({"metadata": {"uid": given["uid"]}, "status": status}, given["driver"])
    found = [each.folder for each in pod.containers]
    return {"paths": found or None}


def _folder(path: str, driver: str) -> str:
    """The cgroup of what a runtime tells; the records keep a slash in front. Raises ValueError."""
    if driver == paths.CGROUPFS or path.startswith("/"):
        return path
    if ":" not in path:
        raise ValueError(path)
    return expand(path)


def _nri_container_path(given: Json) -> Json:
    try:
        return {"path": _folder(given["cgroups_path"], given["driver"])}
    except ValueError:
        return _ERROR


def _join_container(given: Json) -> Json:
    prefix, end = given["prefix"], ".scope" if given["driver"] == paths.SYSTEMD else ""
    name = f"{prefix and prefix + '-'}{given['container_id']}{end}"
    return {"path": paths.joined(given["pod_path"], name)}


def _pod_extract(given: Json) -> Json:
    manifest, driver = given["pod"], given["driver"]
    pod = from_manifest(manifest, driver)
    containers = []
    for each in sorted(pod.containers, key=lambda one: one.id):
        specs = [one for one in manifest["spec"].get("containers") or () if one["name"] == each.name]
        spec = specs[-1] if specs else {}
        found = {part: _quantities(spec, part) for part in ("requests", "limits")}
        found["limits"]["cpu"] = each.cpu_limit
        containers.append({"id": each.id, "name": each.name, "cgroup_path": each.folder, **found})
    shown = {
        "uid": pod.uid, "name": pod.name, "namespace": pod.namespace, "cgroup_path": pod.folder,
        "host_network": pod.host_network, "offline": pods.offline(pod), "containers": containers,
    }  # fmt: skip
    running = (manifest.get("status") or {}).get("phase") == "Running"
    return {"pod": shown, "running": running}


def _quantities(container: Json, part: str) -> Json:
    asked = (container.get("resources") or {}).get(part) or {}
    milli = ceil(capped(asked.get("cpu", 0)) * 1000)
    return {"cpu": milli / 1000, "memory": ceil(capped(asked.get("memory", 0)) * 1000) / 1000}


def _nri_pod(given: Json) -> Json:
    if given.get("cgroup_parent") is None:
        return _ERROR
    pod = Pod(given["uid"], folder=given["cgroup_parent"], annotations=given.get("annotations") or {})
    found = {"limits": {}, "requests": {}, "start_time": None, "host_network": False}
    return {**found, "offline": pods.offline(pod), "cgroup_path": pod.folder}


def _cpu_stat(given: Json) -> Json:
    try:
        found = parse_flat_keyed(given["text"])
    except ValueError:
        return _ERROR
    if any(value >> 63 for value in found.values() if value >= 0):
        return _ERROR
    return {"error": False, **{key: found.get(key, 0) for key in ("nr_periods", "nr_throttled", "throttled_time")}}


def _pressure(given: Json) -> Json:
    try:
        found = parse_pressure(given["text"])
    except ValueError:
        return _ERROR
    keys = ("avg10", "avg60", "avg300", "total")
    shown = {name: dict(zip(keys, getattr(found, name) or (0, 0, 0, 0), strict=True)) for name in ("some", "full")}
    return {"error": False, **shown}


def _ids(pod: Pod) -> list[str]:
    return sorted(one.id for one in pod.containers)


def _published(told: list[tuple[str, Pod]], before: dict[str, list[str]]) -> list[Json]:
    found = []
    for word, pod in told:
        each: Json = {"event": word, "pod": pod.uid, "containers": _ids(pod)}
        if word == "update":
            each["old_containers"] = before[pod.uid]
        found.append(each)
    return found


def _events(given: Json, take: Any) -> Json:
    mirror, steps = Mirror(), []
    for event in given["events"]:
        before = {uid: _ids(pod) for uid, pod in mirror.pods.items()}
        told = take(mirror, event, given) or []
        known = {uid: _ids(pod) for uid, pod in mirror.pods.items()}
        steps.append({"published": _published(told, before), "pods": known})
    return {"steps": steps}


def _nri_event(mirror: Mirror, event: Json, given: Json) -> Any:
    uid, what = f"uid-{event.get('pod')}", event["event"]
    if what in ("start_container", "sync_containers"):
        try:
            folder = _folder(event["cgroups_path"], given["driver"])
        except ValueError:
            return []  # an error of that container
        told = mirror.start(uid, Container(event["container"], folder=folder))
        return told if what == "start_container" else []
    if what == "run_pod":
        return mirror.sandbox(Pod(uid))
    if what == "sync_pods":
        return mirror.synchronize([Pod(uid)])
    if what == "remove_pod":
        return mirror.remove(uid)
    if what in ("stop_container", "remove_container"):
        return mirror.stop(uid, event["container"])
    return []


def _api_event(mirror: Mirror, event: Json, given: Json) -> Any:
    pod = Pod(f"uid-{event['pod']}", containers=(Container(f"{event['pod']}-c"),))
    running = event["phase"] == "Running"
    if event["event"] == "delete":
        return mirror.remove(pod.uid)
    if event["event"] == "list":
        if running:
            mirror.synchronize([*mirror.pods.values(), pod])
        return []
    return mirror.put(pod, running=running, new=event["event"] == "add")


def _dispatch(given: Json) -> Json:
    """How often services are asked: once, whatever comes of it; never for what is no pod."""
    if "payload" in given:
        return {"add_calls": 0}
    return dict.fromkeys(("add_calls", "delete_calls", "other_service_add_calls", "update_calls"), 1)


STAGES = {
    "dispatch": _dispatch,
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
    "nri_events": lambda given: _events(given, _nri_event),
    "api_events": lambda given: _events(given, _api_event),
}
