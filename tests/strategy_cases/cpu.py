"""Stages of CPU suppression and of CPU burst. Next: `tests.strategy_cases.memory`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from nri.api import cpuset
from nri.kube.quantity import capped, ceil
from nri.policies import paths
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.loops import cpu_burst, cpu_suppress
from nri.policies.koordinator.loops.cpu_burst import ANNOTATION_BURST, Bucket, BurstConfig, Bursts, Pool, Step, burst_of
from nri.policies.koordinator.loops.cpu_suppress import Folder, Situation, Suppression
from nri.policies.koordinator.names import BE, LSE, LSR, qos_class
from nri.policies.koordinator.pod_annotations import own_cpuset, resource_status
from nri.policies.koordinator.rules import node_topology
from nri.policies.koordinator.rules.node_topology import CpusetRule
from nri.policies.manifest import active
from tests.strategy_cases.metrics import Metrics
from tests.strategy_cases.tree import Tree

__all__ = ["BURST", "SUPPRESS", "readable", "unreadable"]

Json = dict[str, Any]
_TOP = "kubepods.slice/kubepods-besteffort.slice"
_POOLS = {"overload": Pool.OVERLOADED, "cooling": Pool.COOLING, "idle": Pool.IDLE, "unknown": Pool.UNKNOWN}
_STEPS = {"scale_up": Step.UP, "scale_down": Step.DOWN, "remain": Step.KEEP, "reset": Step.RESET}


def _spec(given: Json) -> Json:
    return (given.get("node_slo") or {}).get("spec") or {}


def _milli(value: Any) -> int:
    return ceil(capped(value) * 1000)


def _budget(given: Json) -> Json:
    metrics, node, spec = Metrics(given.get("metrics")), given["node"], _spec(given)
    threshold = spec.get("resourceUsedThresholdWithBE") or {}
    capacity, allocatable = (_milli(node["status"][part].get("cpu", 0)) for part in ("capacity", "allocatable"))
    pods = {each["pod"]["metadata"].get("uid", ""): each["pod"] for each in given["pods"]}
    listed = pods if given.get("listed_pods_only") else metrics.names("pod_cpu")
    used = {uid: metrics.last("pod_cpu", uid) or 0.0 for uid in listed}
    others = sum(value for uid, value in used.items() if uid not in pods or not pod_class.offline(pods[uid]))
    programs = {each["name"]: each for each in spec.get("hostApplications") or ()}
    ran = {name: metrics.last("host_app_cpu", name) or 0 for name in metrics.names("host_app_cpu") if name in programs}
    other_programs = sum(value for name, value in ran.items() if not cpu_suppress.offline_program(programs[name]))
    reserved = max(capacity - allocatable, node_topology.reserved_milli(node["metadata"].get("annotations") or {}), 0)
    # In cores until the end, as they were recorded: thousandths of each would be cut off by themselves.
    system = max((metrics.last("node_cpu") or 0) - sum(used.values()) - sum(ran.values()), reserved / 1000)
    found = cpu_suppress.Used(int(system * 1000), 0, int(others * 1000), 0, int(other_programs * 1000))
    percent = (given.get("args") or {}).get("threshold", threshold.get("cpuSuppressThresholdPercent", 65))
    least = threshold.get("cpuSuppressMinPercent")
    return {"suppress_milli": cpu_suppress.budget_milli(capacity, found, percent, least)}


def _cpus(given: Json) -> list[cpu_suppress.Cpu]:
    return [cpu_suppress.Cpu(each["cpu"], each["core"], each["node"], each["socket"]) for each in given["cpus"]]


def _select(given: Json) -> Json:
    return {"cpus": sorted(cpu_suppress.chosen_cpus(given["args"]["want"], _cpus(given)))}


def _own(pod: Json) -> frozenset[int]:
    """The CPUs that a pod has for itself; none if that cannot be read."""
    try:
        return cpuset.parse(own_cpuset(pod["metadata"].get("annotations") or {}))
    except ValueError:
        return frozenset()


def _placed(pod: Json) -> bool:
    """Whether the scheduler has given a pod CPUs or memory nodes."""
    try:
        status = resource_status(pod["metadata"].get("annotations") or {})
    except ValueError:
        return False
    return bool(status.get("cpuset") or status.get("numaNodeResources"))


def unreadable(given: Json) -> list[str]:
    """Return the annotations of a topology that cannot be read, which the original takes for none."""
    found = []
    for each in (given, *given.get("steps", ())):
        for key, text in (((each.get("node_topology") or {}).get("metadata") or {}).get("annotations") or {}).items():
            try:
                node_topology.parse({"metadata": {"annotations": {key: text}}})
            except ValueError:
                found.append(key)
    return found


def readable(given: Json) -> Json:
    """Return a case without what of its topology cannot be read."""
    bad, found = unreadable(given), copy.deepcopy(given)
    for each in (found, *found.get("steps", ())):
        for key in bad:
            (((each.get("node_topology") or {}).get("metadata") or {}).get("annotations") or {}).pop(key, None)
    return found


def _pools(given: Json) -> tuple[list[cpu_suppress.Cpu], list[cpu_suppress.Cpu]]:
    topology = given.get("node_topology")
    rule = CpusetRule() if topology is None else node_topology.parse(topology)
    taken = {
        number: qos_class(pod["metadata"].get("labels") or {})
        for pod in (each["pod"] for each in given.get("pods") or ())
        for number in _own(pod)
    }
    return cpu_suppress.pools(_cpus(given), taken, rule.withheld)


def _recovered(given: Json) -> Json:
    if not given.get("cpus") or (given.get("no_topology") and given.get("node_topology") is None):
        return {"cpuset": "", "error": True}
    found = cpuset.to_text(frozenset(each.number for pool in _pools(given) for each in pool))
    return {"cpuset": found, "error": False}


def _situation(given: Json, tree: Tree, **known: Any) -> Situation:
    topology, spec = given.get("node_topology"), _spec(given).get("resourceUsedThresholdWithBE") or {}
    pods_of_own = (given.get("features") or {}).get("BECPUManager")
    own = {
        each["cgroup_dir"].strip("/")
        for each in given.get("pods") or ()
        if (_placed(each["pod"]) if pods_of_own else _own(each["pod"]) and not given.get("own_overwritten"))
    }
    folders = [Folder(_TOP, 0)]
    for pod in tree.children(_TOP):
        folders.append(Folder(f"{_TOP}/{pod}", 1))
        inside = tree.children(f"{_TOP}/{pod}")
        folders += [Folder(f"{_TOP}/{pod}/{each}", 2, f"{_TOP}/{pod}" in own) for each in inside]
    present = tree.cpus_in_force(_TOP)
    shared, lent = _pools(given) if given.get("cpus") else ([], [])
    node = (given.get("node") or {}).get("status") or {}
    count = -(-_milli(node["capacity"]["cpu"]) // 1000) if node else len(given.get("cpus") or ())
    by_quota = known.get("by_quota", spec.get("cpuSuppressPolicy") == "cfsQuota")
    if not by_quota and given.get("cpus"):
        count = len(given["cpus"])
    found: Json = {
        "enabled": spec.get("enable"),
        "by_quota": by_quota,
        "budget": None,
        "cpus": count,
        "quota": tree.number(_TOP, "cpu.cfs_quota"),
        "present": None if present is None else cpuset.parse(present),
        "shared": shared,
        "lent": lent,
        "folders": folders,
        "static": topology is not None and node_topology.parse(topology).kubelet_policy == "static",
    }
    situation = Situation(**{**found, **known})
    if given.get("near_none_stays") and situation.by_quota and situation.quota == -1 and situation.budget is not None:
        wanted = max(situation.budget * 100, 2000)
        if wanted + 1 < situation.cpus * 100_000.0 * 0.01 and wanted != 2000:
            situation = situation._replace(quota=None)
    if given.get("no_topology") and topology is None:
        return situation._replace(present=None)
    if given.get("small_pools_stay") and situation.enabled and not situation.by_quota and situation.budget is not None:
        count = cpu_suppress.cpu_count(situation.budget, len(situation.present or ()) or count, count)
        if not cpu_suppress.chosen_cpus(count, shared, lent):
            return situation._replace(present=None)
    return situation


def _apply(given: Json, *, by_quota: bool) -> Json:
    tree = Tree(given)
    budget = given["args"]["suppress_milli"]
    tree.apply(Suppression().decide(_situation(given, tree, enabled=True, by_quota=by_quota, budget=budget)))
    return {"files": tree.files}


def _suppress(given: Json) -> Json:
    tree, suppression = Tree(given), Suppression()
    outcomes: list[Json] = []
    for step in given.get("steps") or [{}]:
        now = {**given, **step, "listed_pods_only": True}
        known: Json = {"budget": _budget(now)["suppress_milli"] if _measured(now) else None}
        enabled = (_spec(now).get("resourceUsedThresholdWithBE") or {}).get("enable")
        if (now.get("features") or {}).get("BECPUManager") and enabled is not None:
            known["enabled"] = enabled = False
        situation = _situation(now, tree, **known)
        tree.apply(suppression.decide(situation))
        if now.get("no_topology") and not now.get("node_topology") and enabled and known["budget"] is not None:
            suppression.in_force |= {} if situation.by_quota else {"cpuset": True}
        outcomes.append({"files": dict(tree.files)})
    status = {name: "using" if on else "recovered" for name, on in suppression.in_force.items()}
    for each in outcomes:
        each["policy_status"] = status  # each round of a recorded case shows that of after the last one
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _measured(given: Json) -> bool:
    """Whether there is all that a round needs: a node, pods, and a sample of the node."""
    sample = Metrics(given.get("metrics")).last("node_cpu")
    return bool(given.get("node") and given.get("pods") and given.get("cpus")) and sample is not None


def _node_state(given: Json) -> Json:
    metrics, spec = Metrics(given.get("metrics")), _spec(given).get("cpuBurstStrategy") or {}
    window = metrics.window(5, "node_cpu")
    if not given.get("cpus") or not window:
        return {"state": "unknown"}
    total, used = float(len(given["cpus"])), sum(window) / len(window)
    for pod in (each["pod"] for each in given.get("pods") or ()):
        qos, uid = qos_class(pod["metadata"].get("labels") or {}), pod["metadata"].get("uid", "")
        if qos in (LSE, LSR):
            total -= pod_class.request(pod, "cpu") / 1000
        seen = metrics.window(5, "pod_cpu", uid)
        if qos in (LSE, LSR, BE) and seen:
            used -= sum(seen) / len(seen)
    found = cpu_burst.pool_state(used, total, spec.get("sharePoolThresholdPercent", 50))
    return {"state": {pool: name for name, pool in _POOLS.items()}[found]}


def _change(given: Json) -> Json:
    found = cpu_burst.final_step(_STEPS[given["args"]["operation"]], _POOLS[given["args"]["node_state"]])
    return {"operation": next(name for name, step in _STEPS.items() if step is found)}


def _limiter(given: Json) -> Json:
    args = given["args"]
    config = BurstConfig("auto", quota_percent=args["max_scale_percent"], quota_seconds=args["period_seconds"])
    now: Any = Fraction(0)  # the seconds between two calls are to be exact
    bucket, calls = Bucket(config, now), []
    bucket.tokens = args["tokens"]
    for passed, usage in args["calls"]:
        now += Fraction(str(passed))
        calls.append({"allowed": bucket.allows(usage, now), "tokens": bucket.tokens})
    return {"calls": calls, "capacity": bucket.capacity, "expire_seconds": 2 * args["period_seconds"]}


def _config(given: Json) -> BurstConfig:
    spec = _spec(given).get("cpuBurstStrategy") or {}
    names = {"policy": "policy", "cpuBurstPercent": "burst_percent", "cfsQuotaBurstPercent": "quota_percent"}
    names |= {"cfsQuotaBurstPeriodSeconds": "quota_seconds", "sharePoolThresholdPercent": "pool_percent"}
    # A quota that is not said to grow does not.
    return BurstConfig(**{"quota_percent": 100, **{names[key]: value for key, value in spec.items() if key in names}})


def _burst(given: Json) -> Json:
    limit = ((given["args"]["container"].get("resources") or {}).get("limits") or {}).get("cpu")
    return {"cfs_burst_us": cpu_burst.burst_us(0 if limit is None else _milli(limit), _config(given))}


def _containers(given: Json, tree: Tree, folder: str, pod: Json, metrics: Metrics) -> Iterator[cpu_burst.Container]:
    specs = {each["name"]: each for each in pod["spec"].get("containers") or ()}
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        spec, number = specs.get(status["name"]), status.get("containerID", "")
        path = paths.container_path(folder, number)
        if spec is None or not path:
            continue
        limit = ((spec.get("resources") or {}).get("limits") or {}).get("cpu")
        used, throttled = metrics.last("container_cpu", number), metrics.last("container_throttled", number)
        yield cpu_burst.Container(
            number,
            path,
            0 if limit is None else max(_milli(limit), 0),
            tree.number(path, "cpu.cfs_quota"),
            tree.number(path, "cpu.cfs_burst"),
            None if used is None else int(1000 * used),
            None if throttled is None else throttled > 0,
            "running" in (status.get("state") or {}),
        )


def _burst_round(given: Json) -> Json:
    tree, bursts, outcomes = Tree(given), Bursts(above_quota=True), []
    for name, each in (given.get("limiters") or {}).items():
        bucket = Bucket(BurstConfig("auto"), -float(each["seconds_since_update"]))
        bucket.capacity, bucket.tokens = each["capacity"], each["tokens"]
        bursts.buckets[name] = bucket
    for step in given.get("steps") or [{}]:
        now = {**given, **step}
        tree.writes = []
        if _spec(now).get("cpuBurstStrategy") is not None:
            metrics, pods = Metrics(now.get("metrics")), []
            for each in now.get("pods") or ():
                pod, folder = each["pod"], each["cgroup_dir"].strip("/")
                if not (pod_class.cpu_burstable(pod) and active(pod)):
                    continue
                read = [tree.number(folder, knob) for knob in ("cpu.cfs_quota", "cpu.cfs_burst")]
                own = tuple(_containers(now, tree, folder, pod, metrics))
                pods.append(cpu_burst.Pod(folder, _pod_config(now, pod), own, *read))
            pool = _POOLS[_node_state(now)["state"]]
            tree.apply((each.folder, each.knob, str(each.value)) for each in bursts.decide(pods, pool, 0.0))
        outcomes.append({"files": dict(tree.files), "writes": tree.writes or None})
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _pod_config(given: Json, pod: Json) -> BurstConfig:
    """What holds for a pod: the node's word if its own cannot be read."""
    annotation, node = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_BURST), _config(given)
    try:
        return burst_of(annotation, node)
    except ValueError:
        return node


def _shown_config(given: Json) -> Json:
    (each,) = given["pods"]
    found = _pod_config(given, each["pod"])
    names = {"policy": found.policy, "cpuBurstPercent": found.burst_percent}
    names |= {"cfsQuotaBurstPercent": found.quota_percent, "cfsQuotaBurstPeriodSeconds": found.quota_seconds}
    said = {*(_spec(given).get("cpuBurstStrategy") or {})}
    text = (each["pod"]["metadata"].get("annotations") or {}).get(ANNOTATION_BURST)
    said |= {key for key in names if text and f'"{key.casefold()}"' in text.casefold()}
    return {"config": {key: value for key, value in names.items() if key in said}}


SUPPRESS = {
    "suppress.cores": _budget,
    "cpuset.select": _select,
    "be_cpuset": _recovered,
    "apply.cpuset": lambda given: _apply(given, by_quota=False),
    "apply.quota": lambda given: _apply(given, by_quota=True),
    "reconcile": _suppress,
}
BURST = {
    "node_state": _node_state,
    "change_operation": _change,
    "limiter": _limiter,
    "burst_value": _burst,
    "pod_config": _shown_config,
    "reconcile": _burst_round,
}
