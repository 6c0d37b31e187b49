"""The stages of the recorded cases: each prepares a machine, asks the product's strategy, and shows what came of it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from nri.agent.koordinator import (
    colocation,
    cpu_burst,
    cpu_suppress,
    documents,
    evict,
    memory_qos,
    pod_class,
    resctrl,
    thresholds,
)
from nri.agent.koordinator.cpu_burst import Bucket, BurstConfig, Pool, Step
from nri.agent.koordinator.names import qos_class
from nri.agent.loops.round import Round
from nri.agent.model import Subject
from nri.agent.pods.manifest import active
from nri.kube.quantity import capped, ceil
from tests.strategy_cases.machine import Machine

__all__ = ["STAGES"]

Json = dict[str, Any]
Stage = Callable[[Json], Json]
_POOLS: Final = {"overload": Pool.OVERLOADED, "cooling": Pool.COOLING, "idle": Pool.IDLE, "unknown": Pool.UNKNOWN}
_STEPS: Final = {"scale_up": Step.UP, "scale_down": Step.DOWN, "remain": Step.KEEP, "reset": Step.RESET}
_FEATURES: Final = {feature.name: feature for feature in evict.FEATURES}
_UNLIMITED: Final = "9223372036854775807"


def _rounds(
    case: Json, machine: Machine, show: Callable[[Json], Json], measure: Callable[[Any], Any] | None = None
) -> Json:
    """Have the rounds of a case, and show what came of each.

    Args:
        given: the input of the case.
        machine: the machine.
        show: what came of a round, from its input.
        measure: takes the earlier samples of a round, each as a round of the loops; None begins.
    """
    outcomes = []
    for step in case.get("steps") or [{}]:
        inputs = {**case, **step}
        machine.use(inputs)
        for round_ in (None, *machine.measured_rounds(earlier=True)) if measure else ():
            measure(round_)
        machine.writes()
        machine.round()
        outcomes.append(show(inputs))
    return {"steps": outcomes} if "steps" in case else outcomes[0]


def _one_round(case: Json, gate: str) -> tuple[Machine, Round[Any]]:
    machine = Machine(case, gate)
    *_, round_ = machine.measured_rounds()
    return machine, round_


def _needs_rules(case: Json) -> Json:
    """A case with a NodeSLO: without one the loops have no round, and functions that need none are recorded so."""
    return case if case.get("node_slo") is not None else {**case, "node_slo": {"spec": {}}}


# -- CPU suppression --------------------------------------------------------------------------------------------------


def _suppress_cores(case: Json) -> Json:
    spec = dict((_needs_rules(case)["node_slo"].get("spec") or {}).get("resourceUsedThresholdWithBE") or {})
    percent = (case.get("args") or {}).get("threshold")
    spec |= {"enable": True, **({} if percent is None else {"cpuSuppressThresholdPercent": percent})}
    slo = {"spec": {**(_needs_rules(case)["node_slo"].get("spec") or {}), "resourceUsedThresholdWithBE": spec}}
    with _one_round({**case, "node_slo": slo}, "BECPUSuppress")[0] as machine:
        strategy: Any = machine.strategy()
        *_, round_ = machine.measured_rounds()
        return {"suppress_milli": strategy.budget(round_)[0]}


def _select(case: Json) -> Json:
    cpus = [cpu_suppress.Cpu(cpu["cpu"], cpu["core"], cpu["node"], cpu["socket"]) for cpu in case["cpus"]]
    return {"cpus": sorted(cpu_suppress.chosen_cpus(case["args"]["want"], cpus))}


_IDLE: Final = {"phase": "Running", "qosClass": "Burstable"}
_BE: Final = "kubepods.slice/kubepods-besteffort.slice"


def _suppression(case: Json, **threshold: Any) -> Json:
    """A case whose NodeSLO has this `resourceUsedThresholdWithBE`."""
    return {**case, "node_slo": {"spec": {"resourceUsedThresholdWithBE": threshold}}}


def _recovered(case: Json) -> Json:
    """The CPUs that the folder of best-effort pods gets back when suppression by CPUs is switched off."""
    name = f"/cpuset/{_BE}/cpuset.cpus"
    off = {**_suppression(case, enable=False), "files": {name: "999"}}
    with Machine(off, "BECPUSuppress") as machine:
        machine.round()
        text = machine.files(off)[name]
    return {"cpuset": "", "error": True} if text == "999" else {"cpuset": text, "error": False}


def _apply(policy: str) -> Stage:
    def run(case_input: Json) -> Json:
        case = _suppression(case_input, enable=True, cpuSuppressPolicy=policy, cpuSuppressThresholdPercent=0)
        # Koordinator applies a number that it is given; the strategy looks for pods first.
        idle = {"metadata": {"name": "idle", "labels": {"koordinator.sh/qosClass": "LS"}}, "spec": {}, "status": _IDLE}
        case["pods"] = [*(case_input.get("pods") or ()), {"pod": idle}]
        case.setdefault("node", {"status": {"capacity": {"cpu": str(len(case_input.get("cpus") or ()))}}})
        with Machine({**case, "metrics": {"node_cpu": 0}}, "BECPUSuppress") as machine:
            strategy: Any = machine.strategy()
            strategy.budget = lambda _: (case_input["args"]["suppress_milli"], "")
            machine.round()
            return {"files": machine.files(case_input)}

    return run


def _suppress(case: Json) -> Json:
    on = (case.get("features") or {}).get("BECPUSuppress", True)
    with Machine(case, *(["BECPUSuppress"] if on else [])) as machine:
        return _rounds(case, machine, lambda _: {"files": machine.files(case)})


# -- CPU burst --------------------------------------------------------------------------------------------------------


def _node_state(case: Json) -> Json:
    with Machine(_needs_rules(case), "CPUBurst") as machine:
        strategy: Any = machine.strategy()
        states = [strategy.pool(round_) for round_ in machine.measured_rounds()]
        return {"state": next(name for name, pool in _POOLS.items() if pool is states[-1])}


def _pod_burst_config(case: Json) -> Json:
    with Machine(case, "CPUBurst") as machine:
        *_, round_ = machine.measured_rounds()
        config = cpu_burst.POD_BURST.in_round(round_, round_.pods[0])
    spec = case["node_slo"]["spec"].get("cpuBurstStrategy") or {}
    text = (case["pods"][0]["pod"]["metadata"].get("annotations") or {}).get(cpu_burst.ANNOTATION_BURST) or ""
    # A value that neither says is one of the defaults, which were not merged here.
    keys = {key for key in cpu_burst.BURST_FIELDS if key in spec or f'"{key.casefold()}"' in text.casefold()}
    shown = {key: getattr(config, field) for key, field in cpu_burst.BURST_FIELDS.items() if key in keys}
    return {"config": {key: value for key, value in shown.items() if key != "sharePoolThresholdPercent"}}


def _burst_value(case: Json) -> Json:
    with Machine(case, "CPUBurst") as machine:
        *_, round_ = machine.measured_rounds()
        limit = ((case["args"]["container"].get("resources") or {}).get("limits") or {}).get("cpu")
        milli = 0 if limit is None else ceil(capped(limit) * 1000)
        return {"cfs_burst_us": cpu_burst.burst_us(milli, round_.rules[cpu_burst.BURST])}


def _operation(case: Json) -> Json:
    final = cpu_burst.final_step(_STEPS[case["args"]["operation"]], _POOLS[case["args"]["node_state"]])
    return {"operation": next(name for name, step in _STEPS.items() if step is final)}


def _limiter(case: Json) -> Json:
    args = case["args"]
    config = BurstConfig("auto", quota_percent=args["max_scale_percent"], quota_seconds=args["period_seconds"])
    now: Any = Fraction(0)  # the seconds between two calls are exact
    bucket, calls = Bucket(config, now), []
    bucket.tokens = args["tokens"]
    for passed, usage in args["calls"]:
        now += Fraction(str(passed))
        calls.append({"allowed": bucket.allows(usage, now), "tokens": bucket.tokens})
    return {"calls": calls, "capacity": bucket.capacity, "expire_seconds": 2 * args["period_seconds"]}


def _burst(case: Json) -> Json:
    with Machine(case, "CPUBurst") as machine:
        # koordlet's kernels take a burst above the quota, which this file shows.
        name = (
            f"cpu,cpuacct/{_BE.partition('/')[0]}/cpu.bvt_warp_ns"
            if not machine.v2
            else f"{_BE.partition('/')[0]}/cpu.bvt_warp_ns"
        )
        path = machine.path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0\n")
        strategy: Any = machine.strategy()
        for container, limiter in (case.get("limiters") or {}).items():
            bucket = Bucket(BurstConfig("auto"), machine.now - float(limiter["seconds_since_update"]))
            bucket.capacity, bucket.tokens = limiter["capacity"], limiter["tokens"]
            strategy.bursts.buckets[container] = bucket

        def show(_: Json) -> Json:
            writes = [{"path": path, "value": text.split()[0]} for path, text in machine.writes()]
            return {"files": machine.files(case), "writes": writes or None}

        def measure(round_: Round[Any] | None) -> None:
            if round_ is None:  # the samples of a step replace those of the step before
                strategy.recent.clear()
            else:
                strategy.pool(round_)

        return _rounds(case, machine, show, measure)


# -- evictions --------------------------------------------------------------------------------------------------------


def _config(case: Json) -> Json:
    feature = _FEATURES[case["feature"]]
    with Machine(_needs_rules(case), feature.name) as machine:
        *_, round_ = machine.measured_rounds()
        return {"valid": evict.valid(feature, round_.rules[thresholds.THRESHOLD].keys)}


def _held(case: Json) -> Json:
    """A case in which a lone sample of batch pods holds for a minute, if NodeSLO names no window.

    The agent then averages a minute, and Koordinator the time between two samples.
    """
    spec = (case.get("node_slo") or {}).get("spec") or {}
    window_s = (spec.get("resourceUsedThresholdWithBE") or {}).get("cpuEvictTimeWindowSeconds")
    series = (case.get("metrics") or {}).get("be_cpu")
    if window_s is not None or not series or any(len(samples) > 1 for samples in series.values()):
        return case
    stored = {key: [[0.5 + s, value] for s in range(60)] for key, ((_, value),) in series.items()}
    return {**case, "metrics": {**case["metrics"], "be_cpu": stored}}


def _evicting(case: Json) -> Json:
    """A case of a function that is recorded apart from the round: the node has CPUs, and evictions are switched on."""
    spec = case["node_slo"]["spec"]
    threshold = {**(spec.get("resourceUsedThresholdWithBE") or {}), "enable": True}
    node = case.get("node") or {"status": {"capacity": {"cpu": "1024"}}}
    return {**case, "node": node, "node_slo": {"spec": {**spec, "resourceUsedThresholdWithBE": threshold}}}


def _release(case: Json) -> Json:
    feature, case = _FEATURES[case["feature"]], _evicting(_held(case))
    with Machine(case, feature.name) as machine:
        strategy: Any = machine.strategy()
        releases = [strategy.release(round_, feature)[0] for round_ in machine.measured_rounds()]
    release = releases[-1]
    return {"release": {name: amount / 1000 if name == "cpu" else amount for name, amount in release.items()}}


def _victims(case: Json) -> Json:
    feature, case = _FEATURES[case["feature"]], _evicting(case)
    with Machine(case, feature.name) as machine:
        strategy: Any = machine.strategy()
        *_, round_ = machine.measured_rounds()
        return {"victims": [_victim(feature, victim) for victim in strategy.victims(round_, feature)]}


def _victim(feature: evict.Feature, victim: evict.Victim) -> Json:
    shown: Json = {"pod": victim.pod["metadata"]["name"]}
    if feature.kind == "cpu":
        shown |= {"milli_request": victim.request, "milli_used": int(victim.used or 0)}
    elif feature.most_priority:
        shown["memory_request"] = victim.request
    if feature.most_priority:
        shown["eviction_priority"] = pod_class.eviction_priority(victim.pod)
        shown["priority"] = pod_class.priority(victim.pod)
        shown["label_priority"] = pod_class.label_priority(victim.pod)
    return shown


def _evictions(kind: str) -> Stage:
    def run(case: Json) -> Json:
        case = _held(case)
        on = [name for name, is_on in (case.get("features") or {}).items() if is_on]
        names = [name for name in on if name in _FEATURES and _FEATURES[name].kind == kind]
        with Machine(case, *names) as machine:
            if not names:
                return {"cooldown_started": False, "evictions": []}
            strategy: Any = machine.strategy()
            machine.now -= 1000  # a cooldown begins with the agent
            listed = machine.pods.pods()
            machine.pods.replace([])
            machine.round()
            machine.pods.replace(listed)
            machine.now += 1000
            removed = (case.get("eviction") or {}).get("already_evicted") or ()
            for pod in listed:
                if pod["metadata"]["name"] in removed:
                    strategy.accepted[pod["metadata"]["uid"]] = machine.now

            def measure(round_: Round[Any] | None) -> None:
                for feature in strategy.features if round_ is not None else ():
                    strategy.release(round_, feature)

            def show(_: Json) -> Json:
                requests, machine.evictor.requests = machine.evictor.requests, []
                is_evicted = any(request["result"] == "evicted" for request in requests)
                return {"cooldown_started": is_evicted, "evictions": requests}

            return _rounds(case, machine, show, measure)

    return run


def _facts(case: Json) -> Json:
    pod = case["pods"][0]["pod"]
    cpu, memory = pod_class.resource_name(pod, "cpu"), pod_class.resource_name(pod, "memory")
    text = (pod["metadata"].get("annotations") or {}).get(pod_class.ANNOTATION_EVICTION_PRIORITY)
    number = pod_class.eviction_priority(pod)
    return {
        "counts_as_non_be": not pod_class.offline(pod),
        "cpu_burstable": pod_class.cpu_burstable(pod),
        "cpu_request": {"resource": cpu, "value": pod_class.request(pod, cpu)},
        "memory_request": {"resource": memory, "value": pod_class.request(pod, memory)},
        "eviction_enabled": pod_class.evictable_label(pod),
        "eviction_priority": number,
        "eviction_priority_error": bool(text) and number == 0 and text.lstrip("+-").strip("0") != "",
        "inactive": not active(pod),
        "label_priority": pod_class.label_priority(pod),
        "policy_allowed": pod_class.policy_allows(pod, case["args"]["policy"]),
        "priority": pod_class.priority(pod),
        "priority_class": pod_class.priority_class(pod),
        "qos_class": pod_class.default_qos(pod),
        "qos_label": qos_class(pod["metadata"].get("labels") or {}),
    }


# -- memory QoS, caches, disks ----------------------------------------------------------------------------------------


def _memory_config(case: Json) -> Json:
    with Machine(case, "CgroupReconcile") as machine:
        *_, round_ = machine.measured_rounds()
        config = memory_qos.POD_MEMORY.in_round(round_, round_.pods[0])
    key = memory_qos.CLASS_KEYS[pod_class.default_qos(case["pods"][0]["pod"])]
    classes = case["node_slo"]["spec"].get("resourceQOSStrategy") or {}
    return {"memoryQOS": dict(config) if config or "memoryQOS" in (classes.get(key) or {}) else None}


def _memory(case: Json) -> Json:
    with Machine(case, "CgroupReconcile") as machine:
        values: list[Any] = []
        strategy = machine.strategy()
        decide = strategy.round

        def round_(current: Round[Any]) -> None:
            decide(current)
            values[:] = current.values

        strategy.round = round_  # type: ignore[method-assign]

        def show(_: Json) -> Json:
            targets: Json = {"qos": [], "pod": [], "container": []}
            for value in values:
                path = machine.knob_file(value.folder, value.knob)
                text = _UNLIMITED if value.value == "-1" else value.value
                if path:
                    targets[_level(value.subject)].append({"path": path, "value": text})
            for level in targets.values():
                level.sort(key=lambda one: (one["path"], one["value"]))
            outcome = {"files": machine.files(case)}
            if values or any(targets.values()):
                outcome["targets"] = targets
            values.clear()
            return outcome

        return _rounds(case, machine, show)


def _level(subject: Subject) -> str:
    return "qos" if subject.key.startswith("kube-qos/") else "container" if subject.container else "pod"


def _bandwidth(case: Json) -> Json:
    return {"mb": resctrl.class_bandwidth(case["args"]["percent"], (case.get("cpu_basic") or {}).get("vendorID", ""))}


def _mask(case: Json) -> Json:
    args = case["args"]
    try:
        return {
            "error": False,
            "mask": f"{resctrl.cache_mask(int(args['cbm'], 16), args['start_percent'], args['end_percent']):x}",
        }
    except ValueError:
        return {"error": True}


def _writes(gate: str) -> Stage:
    def run(case: Json) -> Json:
        with Machine(case, gate) as machine:

            def show(_: Json) -> Json:
                writes = [{"path": path, "value": text} for path, text in machine.writes()]
                tasks = [write["path"] for write in writes if write["path"].endswith("/tasks")]
                for path in dict.fromkeys(tasks):
                    ids = [write["value"] for write in writes if write["path"] == path]
                    writes = [write for write in writes if write["path"] != path]
                    writes.append({"path": path, "value": "\n".join(ids)})
                if gate == "BlkIOReconcile":
                    writes = [
                        {"path": write["path"], "value": line}
                        for write in writes
                        for line in write["value"].splitlines()
                    ]
                    writes.sort(key=lambda write: (write["path"], write["value"].split()[0]))
                return {"writes": writes}

            return _rounds(case, machine, show)

    return run


# -- NodeSLO ----------------------------------------------------------------------------------------------------------


def _defaults(case: Json) -> Json:
    strategy = documents.DEFAULTS["resourceQOSStrategy"]
    off = {
        name: documents.OFF if isinstance(parts, dict) and name.endswith("Class") else parts
        for name, parts in strategy.items()
    }
    what = str(case["args"]["what"]).lower()
    if "colocation" in what:
        return {"value": colocation.DEFAULTS}
    return {"value": off if "none" in what or "disabled" in what else documents.DEFAULTS}


def _merge(case: Json) -> Json:
    """The spec as Koordinator shows what it has read: a block always has its limits."""
    spec = documents.merged((case.get("node_slo") or {}).get("spec"))
    for part in spec["resourceQOSStrategy"].values():
        for block in (part.get("blkioQOS") or {}).get("blocks") or ():
            block.setdefault("ioCfg", {})
    return {"spec": spec}


def _merges(case: Json) -> Json:
    if "steps" not in case:
        return _merge(case)
    return {"steps": [_merge({**case, **step}) for step in case["steps"]]}


def _validate(case: Json) -> Json:
    part = case["args"]["part"]
    violations = documents.violations(part, case["node_slo"]["spec"].get(part))
    return {"valid": not violations, "violations": [violation._asdict() for violation in violations]}


def _colocation_of_node(case: Json) -> Json:
    config, node = (case.get("args") or {}).get("config"), case.get("node")
    return {"strategy": None if config is None or node is None else colocation.of_node(config, node)}


def _colocation_valid(case: Json) -> Json:
    strategy = case["args"]["strategy"]
    return {"valid": strategy is not None and not colocation.wrong(strategy)}


STAGES: Final[dict[str, Stage]] = {
    "cpusuppress/suppress.cores": _suppress_cores,
    "cpusuppress/cpuset.select": _select,
    "cpusuppress/be_cpuset": _recovered,
    "cpusuppress/apply.cpuset": _apply("cpuset"),
    "cpusuppress/apply.quota": _apply("cfsQuota"),
    "cpusuppress/reconcile": _suppress,
    "cpuburst/node_state": _node_state,
    "cpuburst/pod_config": _pod_burst_config,
    "cpuburst/burst_value": _burst_value,
    "cpuburst/change_operation": _operation,
    "cpuburst/limiter": _limiter,
    "cpuburst/reconcile": _burst,
    **{
        f"{kind}evict/{stage}": run
        for kind in ("cpu", "memory")
        for stage, run in (
            ("config", _config),
            ("release", _release),
            ("victims", _victims),
            ("reconcile", _evictions(kind)),
        )
    },
    "evict/pod_facts": _facts,
    "cgreconcile/pod_config": _memory_config,
    "cgreconcile/reconcile": _memory,
    "resctrl/mba": _bandwidth,
    "resctrl/l3_mask": _mask,
    "resctrl/reconcile": _writes("RdtResctrl"),
    "blkio/reconcile": _writes("BlkIOReconcile"),
    "nodeslo/defaults": _defaults,
    "nodeslo/merge": _merges,
    "nodeslo/validate": _validate,
    "nodeslo/colocation.node": _colocation_of_node,
    "nodeslo/colocation.valid": _colocation_valid,
}
