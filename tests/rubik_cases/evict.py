"""Stages of the evictions and of cpi. Next: `tests.rubik_cases.deviations`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nri.host.pressure import parse_pressure
from nri.host.usage import parse_memory
from nri.policies.rubik import cpi, evict
from nri.policies.rubik.evict import Cooldown, Sample, Window
from nri.policies.rubik.pods import Pod, offline
from nri.policies.writes import Write
from tests.rubik_cases.tree import Files, pod_of
from tests.rubik_cases.turbo import ticks_of

__all__ = ["STAGES"]

Json = dict[str, Any]
_QUOTA = "cpu.cfs_quota"
#: How many of the first decisions fail.
_FAILS = {"always": 1 << 30, "first": 1, "first two": 2, "first three": 3}


def _loads(pods: list[Json], by: str, cpus: int) -> dict[str, float | None]:
    found = {}
    for each in pods:
        samples = [Sample(one["t_ns"], one["cpu_usage_ns"], one["memory_bytes"]) for one in each["stats"] or ()]
        found[each["uid"]] = evict.cpu_percent(samples, cpus) if by == "cpu" else evict.memory_mb(samples)
    return found


def _victim(given: Json) -> Json:
    loads = _loads(given["pods"], given["by"], given["ncpu"])
    chosen = evict.victim(map(pod_of, given["pods"]), loads)
    values = {each["name"]: -1 if loads[each["uid"]] is None else loads[each["uid"]] for each in given["pods"]}
    return {"error": False, "values": values, "victim": chosen.name if chosen else None}


def _monitor(given: Json) -> Json:
    config, files = given["config"], given["files"]
    online = [pod for pod in map(pod_of, given["other_pods"]) if not offline(pod)]
    avg10: dict[str, list[float]] = {}
    for resource in config["resource"]:
        for pod in online:
            text = files.get(f"cpuacct/{pod.folder}/{resource}.pressure")
            try:
                some = parse_pressure(text).some if text is not None else None
            except ValueError:
                continue
            avg10.setdefault(resource, []).append(some.avg10 if some else 0.0)
    resource = evict.pressed(config["resource"], avg10, config["avg10threshold"])
    chosen = None
    if resource:
        loads = _loads(given["offline_pods"], evict.BY[resource], given["ncpu"])
        chosen = evict.victim(evict.candidates(map(pod_of, given["offline_pods"])), loads)
    return {"error": False, "evict": [chosen.name] if chosen else []}


def _window(given: Json) -> Json:
    config = given["config"]
    window, steps, average = Window(config["windows"]), [], None
    for each in given["samples"]:
        try:
            average = window.add(each["t_ms"] * 10**6, ticks_of(each["proc_stat"]))
        except ValueError:
            pass  # no sample
        over = average is not None and average >= config["threshold"]
        steps.append({"average": -1 if average is None else average, "exceeded": over, "samples": len(window)})
    return {"steps": steps}


def _cooldown(given: Json) -> Json:
    """A decision without an error stands for an eviction."""
    pause, asked = Cooldown(given["cooldown"]), []
    fails = _FAILS.get(given["decision_fails"], 0)
    for tick in range(given["ticks"]):
        if pause.over(tick * given["interval"]):
            asked.append(tick)
            if len(asked) > fails:
                pause.begin(tick * given["interval"])
    return {"decision_ticks": asked}


def _pods(found: list[Json]) -> list[Pod]:
    keys = {"uid": "", "cgroup_path": "", "annotations": {}, "labels": {}}
    made = []
    for each in found:
        extra = {"annotations": {"volcano.sh/preemptable": "true"}} if each.get("offline") else {}
        made.append(pod_of({**keys, "uid": each["name"], **each, **extra}))
    return made


def _round(given: Json) -> Json:
    pods = _pods(given["pods"])
    found = evict.candidates(pods)
    loads = {
        pod.uid: each["load"] if each["load"] >= 0 else None for pod, each in zip(pods, given["pods"], strict=True)
    }
    chosen = evict.victim(found, loads) if given["exceeded"] else None
    return {"asked": bool(found), "error": False, "evict": [chosen.name] if chosen else []}


def _request(given: Json) -> Json:
    found, error = [], False
    for each in given["targets"]:
        if each["namespace"] == "kube-system":
            error = True
            continue
        found.append(_eviction(each["namespace"], each["name"]))
        error = error or each["name"] in (given["api_refuses"] or "")
    return {"error": error, "requests": found}


def _eviction(namespace: str, name: str) -> Json:
    meta = {"name": name, "namespace": namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    return {"method": "POST", "path": f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "body": body}


def _round_request(given: Json) -> Json:
    found = _round(given)
    spaces = {each["name"]: each["namespace"] for each in given["pods"]}
    return {"error": False, "requests": [_eviction(spaces[name], name) for name in found["evict"]]}


def _check(given: Json) -> Json:
    try:
        used = evict.memory_percent(parse_memory(given["meminfo"]))
    except ValueError:
        return {"error": True}
    return {"used_percent": used, "exceeded": used >= given["threshold"]}


def _series(given: Any) -> cpi.Series:
    return [(at, value) for at, value in given or ()]


def _shown(series: cpi.Series) -> list[list[float]]:
    return [list(each) for each in series]


def _series_add(given: Json) -> Json:
    series = _series(given["series"])
    try:
        if given["series"] is None:
            raise ValueError("no series")
        cpi.add(series, *given["add"])
    except ValueError:
        return {"error": True, "series": _shown(series)}
    return {"error": False, "series": _shown(series)}


def _series_range(given: Json) -> Json:
    return {"series": _shown(cpi.within(_series(given["series"]), given["start"], given["end"])) or None}


def _series_expire(given: Json) -> Json:
    old, rest = cpi.split(_series(given["series"]), given["before"])
    return {"expired": _shown(old), "series": _shown(rest)}


def _baseline(given: Json) -> cpi.Baseline:
    return cpi.Baseline(given.get("count", 0), given["mean"], given["std"])


def _online(given: Json) -> cpi.Online:
    return cpi.Online(_baseline(given), _series(given["cpi"]), _series(given.get("cpu")))


def _expire(given: Json) -> Json:
    if not given["online"]:
        found = cpi.Online(
            _baseline(given), *(cpi.split(_series(given[key]), given["before"])[1] for key in ("cpi", "cpu"))
        )
    else:
        found = cpi.expire(_online(given), given["before"])
    return {**asdict(found.baseline), "cpi": _shown(found.cpi), "cpu": _shown(found.cpu)}


def _outlier(given: Json) -> Json:
    return {"outlier": cpi.outlier(_online(given), given["now"], given["window_s"] * 10**9)}


def _antagonist(given: Json) -> Json:
    score = cpi.score(_online(given), _series(given["suspect_cpu"]), given["now"], given["window_s"] * 10**9)
    return {"antagonist": score > given["metric"], "score": score}


def _limit(given: Json) -> Json:
    pod = pod_of(given["pod"])
    files = Files(given["files"])
    quotas = {folder: files.number(folder, _QUOTA) for folder in pod.folders()}
    shown: Json = {"add_error": False, "lock_held_after_limit": False, "lock_held_after_restore": False}
    _drop(files, pod, given["files_removed_before_limit"])
    good = files.apply(cpi.limits(pod), whole=True)
    shown.update(files_limited=files.changed(), limit_error=not good, limited=good)
    files.forget()
    _drop(files, pod, given["files_removed_before_restore"])
    back = [Write(folder, _QUOTA, str(quota)) for folder, quota in quotas.items() if quota is not None]
    restored = files.apply(back, whole=True) if good else True
    shown.update(files_restored=files.changed(), limited_after_restore=not restored)
    return shown


def _drop(files: Files, pod: Pod, names: list[str] | None) -> None:
    for name in names or ():
        files.now.pop(f"cpu/{'/'.join(filter(None, (pod.folder, name)))}/cpu.cfs_quota_us", None)
    files.forget()


def _cpi_add(given: Json) -> Json:
    pod, files = pod_of(given["pod"]), Files(given["files"])
    kind = pod.annotations.get(cpi.ANNOTATION)
    readable = all(files.read(folder, _QUOTA) is not None for folder in pod.folders())
    shown = {"error": False, "delete_error": False, "left_after_delete": 0}
    return {**shown, "online": kind == "online", "offline": kind == "offline" and readable}


def _cpi_start(given: Json) -> Json:
    return {"error": not given["perf_supported"] or given["pods"] is None}


def _cpi_stop(given: Json) -> Json:
    return {"files": {}, "panic": False}  # no pod of these cases was limited


def _collect(given: Json) -> Json:
    try:
        return {"cpi": cpi.cpi_of(given["cycles"], given["instructions"])}
    except (KeyError, TypeError, ValueError):  # what was not counted
        return {"error": True}


def _cpi_round(given: Json) -> Json:
    files = Files(given["files"])
    suspects = {name: _series(each["cpu"]) for name, each in given["offline"].items()}
    found = cpi.antagonists([_online(each) for each in given["online"].values()], suspects, given["now"])
    limited = [
        name for name in sorted(found) if files.apply(cpi.limits(pod_of(given["offline"][name]["pod"])), whole=True)
    ]
    return {"files": files.changed(), "limited": limited}


_WATER = {"round": _round, "window": _window, "cooldown": _cooldown, "check": _check}
STAGES = {
    "psi": {"victim": _victim, "monitor": _monitor, "start": lambda given: {"error": given["pods"] is None}},
    "cpuevict": _WATER,
    "memoryevict": _WATER,
    "eviction": {"request": _request, "round_request": _round_request},
    "cpi": {
        "series_add": _series_add,
        "series_range": _series_range,
        "series_normalize": lambda given: {"series": _shown(cpi.normalized(_series(given["series"])))},
        "series_expire": _series_expire,
        "statistic": lambda given: asdict(_baseline(given).fold(given["values"] or [])),
        "expire": _expire,
        "outlier": _outlier,
        "antagonist": _antagonist,
        "limit": _limit,
        "add": _cpi_add,
        "start": _cpi_start,
        "config": lambda given: {"error": False},
        "stop": _cpi_stop,
        "collect_cpi": _collect,
        "round": _cpi_round,
    },
}
