"""Stages of the evictions and of cpi, whose services see the use of pods as time passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest

from nri.agent.loops.evictor import ApiserverEvictor, Evictor
from nri.agent.rubik import cpi, dyn_cache
from nri.agent.rubik import event_counts as counting
from nri.agent.rubik.memory_evict import memory_percent
from nri.host import Unsupported
from nri.host.perf import Event
from tests.rubik_cases.limits import resctrl_files
from tests.rubik_cases.world import CaseWorld, Json
from tests.support.http_server import HttpServer, body

__all__ = ["STAGES"]

_SECOND_NS: Final = 10**9
_OFFLINE: Final = {"volcano.sh/preemptable": "true"}
#: How often a pod may not go, by the word of a case.
_FAILS: Final = {"always": 1 << 30, "first": 1, "first two": 2, "first three": 3}


def _lay_use(world: CaseWorld, pod: Json, cpu_ns: int, memory_bytes: int) -> None:
    """Have a pod's cgroup have used so much."""
    path = pod["cgroup_path"]
    world.lay(
        {
            f"cpuacct/{path}/cpuacct.usage": f"{cpu_ns}\n",
            f"cpu/{path}/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            f"memory/{path}/memory.usage_in_bytes": f"{memory_bytes}\n",
            f"memory/{path}/memory.stat": "total_inactive_file 0\n",
        }
    )


def _play(world: CaseWorld, pods: list[Json], other_entries: list[Json], before_last: Mapping[str, str]) -> None:
    """Have a round for each reading of pods, the last ones of all at once; files come before the last round."""
    # Two readings of one time are one reading.
    pods = [{**pod, "stats": list({one["t_ns"]: one for one in pod["stats"] or ()}.values())} for pod in pods]
    rounds = max((len(pod["stats"]) for pod in pods), default=0) or 1
    world.run(*pods, *other_entries)
    times = next((pod["stats"] for pod in pods if len(pod["stats"]) == rounds), [{"t_ns": _SECOND_NS}])
    for place in range(rounds):
        for pod in pods:
            stats = pod["stats"]
            at = place - (rounds - len(stats))
            if at >= 0:
                _lay_use(world, pod, stats[at]["cpu_usage_ns"], stats[at]["memory_bytes"])
        if place == rounds - 1:
            world.lay(before_last)
        world.round(times[place]["t_ns"] - times[0]["t_ns"] + _SECOND_NS)


def _evicted(world: CaseWorld, pods: list[Json]) -> list[str]:
    names = {pod["uid"]: pod["name"] for pod in pods}
    return [names[uid] for uid in world.asked.pods]


def _failed(world: CaseWorld) -> bool:
    """Whether a round could not do something that rubik counts as an error, and does not only log."""
    logged = ("unsupported here", "usage of all offline pods is unknown", "stays")
    return any(not any(word in problem for word in logged) for problem in world.problems)


def _victim(folder: Path, case: Json, expected: Json) -> Json:
    """An online pod that waits, so that one of the offline ones has to go."""
    by, pods = case["by"], [{**pod, "annotations": _OFFLINE} for pod in case["pods"]]
    web = {"name": "web", "uid": "web", "cgroup_path": "kubepods/podweb"}
    config = {"resource": [by], "interval": 10, "avg10threshold": 5.0}
    world = CaseWorld(folder, cpus=case["ncpu"], psi=config)
    line = "avg10=9.00 avg60=0.00 avg300=0.00 total=1\n"
    _play(world, pods, [web], {f"cpuacct/kubepods/podweb/{by}.pressure": f"some {line}full {line}"})
    used = world.service.usage_by_uid(by, case["ncpu"])
    values = {pod["name"]: -1 if used.get(pod["uid"]) is None else used[pod["uid"]] for pod in pods}
    return {"error": False, "values": values, "victim": next(iter(_evicted(world, pods)), None)}


def _monitor(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, cpus=case["ncpu"], psi=case["config"])
    _play(world, case["offline_pods"], case["other_pods"], case["files"])
    return {"error": _failed(world), "evict": _evicted(world, [*case["offline_pods"], *case["other_pods"]])}


def _psi_start(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, psi={"resource": ["cpu"]})
    world.run(*(case["pods"] or ()))
    world.round()
    return {"error": _failed(world)}


def _window(folder: Path, case: Json, expected: Json) -> Json:
    world, steps = CaseWorld(folder, cpuevict=case["config"]), []
    batch = {"name": "b", "uid": "b", "cgroup_path": "kubepods/podb", "annotations": _OFFLINE}
    world.run(batch)
    for sample in case["samples"]:
        world.put("/proc/stat", sample["proc_stat"])
        world.round(sample["t_ms"] * 10**6 + _SECOND_NS)
        average, kept_part = world.service.average, len(world.service.window)
        # The use of this pod is not known, so that it is reported and not evicted when one has to go.
        exceeded = any("usage of all offline pods is unknown" in problem for problem in world.problems)
        steps.append({"average": -1 if average is None else average, "exceeded": exceeded, "samples": kept_part})
    return {"steps": steps}


def _cooldown(folder: Path, case: Json, expected: Json) -> Json:
    """Rounds on a node without free memory, of which each asks for a pod until a pause follows an eviction."""
    config = {"threshold": 1, "interval": case["interval"], "cooldown": case["cooldown"]}
    world = CaseWorld(folder, memoryevict=config)
    world.put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 0 kB\n")
    fails, collected = _FAILS.get(case["decision_fails"], 0), []
    for tick in range(case["ticks"]):
        batch = {"name": f"b{tick}", "uid": f"b{tick}", "cgroup_path": f"kubepods/podb{tick}", "annotations": _OFFLINE}
        _lay_use(world, batch, 0, 1)
        world.run(batch)
        world.asked.refuses = "it may not go" if len(collected) < fails else ""
        before = len(world.asked.pods)
        world.round((tick * case["interval"] + 1) * _SECOND_NS)
        if len(world.asked.pods) > before:
            collected.append(tick)
    return {"decision_ticks": collected}


def _round(service: str) -> Any:
    """The stage `round` of an eviction by the use of the node."""

    def run(folder: Path, case: Json, expected: Json) -> Json:
        world, pods = _evict_once(folder, case, service)
        return {"error": _failed(world), "evict": _evicted(world, pods)}

    return run


def _evict_once(folder: Path, case: Json, service: str, evictor: Evictor | None = None) -> tuple[CaseWorld, list[Json]]:
    """Two rounds of a node that is above or below the threshold in the second one, and pods with loads."""
    config = {"threshold": 50} if service == "memoryevict" else {"threshold": 50, "interval": 1}
    world = CaseWorld(folder, cpus=1, evictor=evictor, **{service: config})
    pods = []
    for pod in case["pods"]:
        extra = {"annotations": _OFFLINE} if pod.get("offline") else {}
        base = {"uid": f"uid-{pod['name']}", "cgroup_path": f"kubepods/pod{pod['name']}"}
        pods.append({**base, **pod, **extra})
    world.run(*pods)
    busy, idle = (100, 0) if case["exceeded"] else (0, 100)
    for place in (0, 1):
        last = place == 1
        full = case["exceeded"] and last
        world.put("/proc/meminfo", f"MemTotal: 100 kB\nMemFree: {1 if full else 99} kB\n")
        world.put("/proc/stat", f"cpu  {busy * place} 0 0 {idle * place} 0 0 0 0 0 0\n")
        for pod in pods:
            if pod["load"] >= 0:
                _lay_use(world, pod, int(pod["load"] * place * _SECOND_NS / 100), int(pod["load"] * 10**6))
        world.round((place + 1) * _SECOND_NS)
    return world, pods


def _check(folder: Path, case: Json, expected: Json) -> Json:
    """A node with one pod that may go: whether it has to is whether the threshold is reached."""
    world = CaseWorld(folder, memoryevict={"threshold": case["threshold"]})
    batch = {"name": "b", "uid": "b", "cgroup_path": "kubepods/podb", "annotations": _OFFLINE}
    _lay_use(world, batch, 0, 1)
    world.put("/proc/meminfo", case["meminfo"])
    world.run(batch)
    world.round()
    if _unknown(world):
        return {"error": True}
    return {"used_percent": memory_percent(world.sample().sizes), "exceeded": bool(world.asked.pods)}


def _unknown(world: CaseWorld) -> bool:
    return any("no pod is evicted: unsupported here" in problem for problem in world.problems)


def _evict_by_server(folder: Path, refuses: str, run: Callable[[Evictor], CaseWorld]) -> Json:
    """Have pods evicted by an API server, which refuses some of them."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.split("/")[-2]
        status = json.dumps({"kind": "Status", "message": "it may not go"}).encode()
        body(status, 429 if refuses and name in refuses else 201, Connection="close")(handler)

    with HttpServer().listening() as server:
        server.otherwise = answer
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [cluster],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        world = run(ApiserverEvictor(str(kubeconfig)))
        requested = [{"method": one["method"], "path": one["path"], "body": one["body"]} for one in server.asked]
    first = {one["path"]: one for one in reversed(requested)}  # one that may not go is asked for again
    return {"error": _failed(world), "requests": list(reversed(first.values()))}


def _request(folder: Path, case: Json, expected: Json) -> Json:
    """Targets that all have to go, one after the other: those named first use more memory."""

    def run(evictor: Evictor) -> CaseWorld:
        world = CaseWorld(folder / "machine", evictor=evictor, memoryevict={"threshold": 1, "cooldown": 1})
        world.put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 0 kB\n")
        pods = [
            {**target, "uid": f"uid-{number}", "cgroup_path": f"kubepods/pod{number}", "annotations": _OFFLINE}
            for number, target in enumerate(case["targets"])
        ]
        for number, pod in enumerate(pods):
            _lay_use(world, pod, 0, (len(pods) - number) * 10**6)
        world.run(*pods)
        for number in range(len(pods)):
            world.round((2 * number + 1) * _SECOND_NS)
        return world

    return _evict_by_server(folder, case["api_refuses"] or "", run)


def _round_request(folder: Path, case: Json, expected: Json) -> Json:
    def run(evictor: Evictor) -> CaseWorld:
        return _evict_once(folder / "machine", case, case["service"], evictor)[0]

    return _evict_by_server(folder, "", run)


# -- counters ---------------------------------------------------------------------------------------------------------


class _Counters:
    """The counters of cgroups: what they count, by the cgroup; None where there are none."""

    def __init__(self) -> None:
        self.events: dict[str, Mapping[Event, int] | None] = {}
        self._cgroup = ""

    def count(self, _hierarchies: Any, _root: Any, cgroup: str, *_: Any) -> Any:
        """Begin to count."""
        if self.events.get(cgroup) is None:
            raise OSError(2, "this case has no counters for it", cgroup)
        counters = _Counters()
        counters.events, counters._cgroup = self.events, cgroup
        return counters

    def read(self) -> Mapping[Event, int]:
        """What was counted."""
        return self.events[self._cgroup] or {}

    def close(self) -> None:
        """Count no longer."""


@contextmanager
def _counted(supported: bool = True) -> Iterator[_Counters]:
    """Have services count by counters of the case, in place of those of this machine's processor."""
    counters = _Counters()
    missing = None if supported else Unsupported("this case's machine has no counters")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "probe_events", lambda _events: missing)
        patch.setattr(counting, "start_counters", counters.count)
        yield counters


def _dynamic(folder: Path, case: Json, expected: Json) -> Json:
    files = {**resctrl_files(case["cbm_mask"], case["numa_nodes"])}
    config, steps = case["config"], []
    level, measured = case["offline_cache_limit"], max(map(len, case["steps"]), default=0)
    world = CaseWorld(folder, files, dynCache=config)
    world.round(_SECOND_NS)
    world.service.dynamic = dyn_cache.Shares(case["l3"], case["mb"])
    annotations = {**_OFFLINE, dyn_cache.ANNOTATION: level}
    batch = {"name": "b", "uid": "b", "cgroup_path": "kubepods/podb", "annotations": annotations}
    online = [{"name": f"on{n}", "uid": f"on{n}", "cgroup_path": f"kubepods/podon{n}"} for n in range(measured)]
    for pod in online:
        _lay_use(world, pod, 0, 0)
    with _counted() as counters:
        world.run(*online, *([] if level == "none" else [batch]))
        for misses in case["steps"]:
            world.run(*online[: len(misses)], *([] if level == "none" else [batch]))
            counters.events = {pod["cgroup_path"]: _events(one) for pod, one in zip(online, misses, strict=False)}
            world.forget()
            world.round(round(world.clock.now * _SECOND_NS) + config["adjustInterval"] * 10**6)
            world.round(round(world.clock.now * _SECOND_NS) + config["perfDuration"] * 10**6)
            shares = world.service.dynamic
            name = "resctrl/rubik_dynamic/schemata"
            moved = (shares.l3, shares.mb) != (
                (steps[-1]["l3"], steps[-1]["mb"]) if steps else (case["l3"], case["mb"])
            )
            text = {name: world.executor.groups["rubik_dynamic"]} if moved else {}
            steps.append({"l3": shares.l3, "mb": shares.mb, "files": text})
    return {"steps": steps}


def _events(misses: Json | None) -> Mapping[Event, int] | None:
    if misses is None:
        return None
    return {Event.REFERENCES: 99, Event.MISSES: misses["cache_miss"],
            Event.LAST_LEVEL_READS: 99, Event.LAST_LEVEL_MISSES: misses["llc_miss"]}  # fmt: skip


# -- cpi --------------------------------------------------------------------------------------------------------------


def _series(case: Any) -> cpi.Series:
    return [(at, value) for at, value in case or ()]


def _shown(series: cpi.Series) -> list[list[float]]:
    return [list(sample) for sample in series]


def _series_add(folder: Path, case: Json, expected: Json) -> Json:
    series = _series(case["series"])
    try:
        cpi.add(series, *case["add"])
    except ValueError:
        return {"error": True, "series": _shown(series)}
    return {"error": False, "series": _shown(series)}


def _series_range(folder: Path, case: Json, expected: Json) -> Json:
    return {"series": _shown(cpi.within(_series(case["series"]), case["start"], case["end"])) or None}


def _series_normalize(folder: Path, case: Json, expected: Json) -> Json:
    return {"series": _shown(cpi.normalized(_series(case["series"])))}


def _series_expire(folder: Path, case: Json, expected: Json) -> Json:
    old, remaining = cpi.split(_series(case["series"]), case["before"])
    return {"expired": _shown(old), "series": _shown(remaining)}


def _baseline(case: Json) -> cpi.Baseline:
    return cpi.Baseline(case.get("count", 0), case["mean"], case["std"])


def _online(case: Json, base: int = 0) -> cpi.OnlinePod:
    cpis, cpus = (_after(case.get(key), base) for key in ("cpi", "cpu"))
    return cpi.OnlinePod(_baseline(case), cpis, cpus)


def _after(series: Any, base: int) -> cpi.Series:
    """A series whose times begin at a base, so that seconds as floats keep each nanosecond."""
    return [(at - base, value) for at, value in series or ()]


def _statistic(folder: Path, case: Json, expected: Json) -> Json:
    return asdict(_baseline(case).fold(case["values"] or []))


def _expire(folder: Path, case: Json, expected: Json) -> Json:
    """Old samples are cleared when that is due, in a round."""
    base = case["before"] - 3600 * _SECOND_NS
    world = CaseWorld(folder, cpi=None)
    word = "online" if case["online"] else "offline"
    world.run({"name": "p", "uid": "p", "cgroup_path": "kubepods/podp", "annotations": {cpi.ANNOTATION: word}})
    with _counted(supported=False):
        world.round(_SECOND_NS)
        service, online = world.service, _online(case, base)
        service.online, service.suspects = ({"p": online}, {}) if case["online"] else ({}, {"p": online.cpu})
        service.due |= {"sample": 1e12, "judge": 1e12, "clear": 0.0}
        world.round(case["before"] - base + cpi.SUSPECT_NS)
    if not case["online"]:
        return {
            **asdict(_baseline(case)),
            "cpi": _shown(_after(case["cpi"], 0)),
            "cpu": _back(service.suspects["p"], base),
        }
    actual = service.online["p"]
    return {**asdict(actual.baseline), "cpi": _back(actual.cpi, base), "cpu": _back(actual.cpu, base)}


def _back(series: cpi.Series, base: int) -> list[list[float]]:
    return [[at + base, value] for at, value in series]


def _outlier(folder: Path, case: Json, expected: Json) -> Json:
    return {"outlier": cpi.outlier(_online(case), case["now"], case["window_s"] * _SECOND_NS)}


def _antagonist(folder: Path, case: Json, expected: Json) -> Json:
    suspect = _series(case["suspect_cpu"])
    score = cpi.score(_online(case), suspect, case["now"], case["window_s"] * _SECOND_NS)
    return {"antagonist": score > case["metric"], "score": score}


_WEB: Final = {"name": "web", "uid": "web", "cgroup_path": "kubepods/podweb", "annotations": {cpi.ANNOTATION: "online"}}
#: Samples of a pod that is slowed down at the end of an hour, and of the one that does it.
_SLOWED: Final = [(at * _SECOND_NS, 1.0 if at < 3450 else 2.0) for at in range(3290, 3600, 60)]
_GUILTY: Final = [(at, 0.0 if value == 1.0 else 3.0) for at, value in _SLOWED]
_USED: Final = [(at, 1.0) for at, _ in _SLOWED]


def _judged(
    folder: Path, files: Json, pods: list[Json], online: Mapping[str, cpi.OnlinePod], suspects: Any
) -> CaseWorld:
    """A machine just before pods with these samples are judged, at the end of an hour."""
    world = CaseWorld(folder, files, cpi=None)
    webs = [{**_WEB, "name": name, "uid": name, "cgroup_path": f"kubepods/pod{name}"} for name in online]
    world.run(*webs, *pods)
    with _counted(supported=False):
        world.round(3300 * _SECOND_NS)
    world.service.online, world.service.suspects = dict(online), dict(suspects)
    world.forget()
    return world


def _limit(folder: Path, case: Json, expected: Json) -> Json:
    pod = case["pod"]
    baseline = cpi.OnlinePod(cpi.Baseline(100, 1.0, 0.1), list(_SLOWED), list(_USED))
    world = _judged(folder, case["files"], [pod], {"web": baseline}, {pod["uid"]: list(_GUILTY)})
    with _counted(supported=False):
        _drop(world, pod, case["files_removed_before_limit"])
        world.executor.failed.clear()
        world.round(3600 * _SECOND_NS)
        failed, limited = any("cannot be read" in one for one in world.problems), bool(len(world.service))
        shown: Json = {"add_error": False, "lock_held_after_limit": False, "lock_held_after_restore": False}
        shown.update(files_limited=world.changed(), limit_error=failed, limited=limited)
        world.forget()
        _drop(world, pod, case["files_removed_before_restore"])
        world.service.suspects[pod["uid"]] = []
        world.service.online["web"] = cpi.OnlinePod(cpi.Baseline(), [], [])
        world.round(3901 * _SECOND_NS)
    shown.update(files_restored=world.changed(), limited_after_restore=bool(len(world.service)))
    return shown


def _drop(world: CaseWorld, pod: Json, names: list[str] | None) -> None:
    for name in names or ():
        world.lay({f"cpu/{'/'.join(filter(None, (pod['cgroup_path'], name)))}/cpu.cfs_quota_us": None})
    world.forget()


def _cpi_add(folder: Path, case: Json, expected: Json) -> Json:
    pod, world = case["pod"], CaseWorld(folder, case["files"], cpi=None)
    world.run(pod)
    with _counted(supported=False):
        world.round()
        service = world.service
        shown = {"error": False, "online": pod["uid"] in service.online, "offline": pod["uid"] in service.suspects}
        world.run()
        world.round()
    remaining = len(service.online) + len(service.suspects)
    return {**shown, "delete_error": bool(world.executor.failed), "left_after_delete": remaining}


def _cpi_start(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, cpi=None)
    world.run(*(case["pods"] or ()))
    with _counted(case["perf_supported"]):
        world.round(60 * _SECOND_NS)
    return {"error": bool(world.problems)}


def _cpi_stop(folder: Path, case: Json, expected: Json) -> Json:
    pod, world = case["pod"], CaseWorld(folder, case["files"], cpi=None)
    world.run(pod)
    with _counted(supported=False):
        world.round(60 * _SECOND_NS)
        if case.get("quota_now") is not None:
            world.lay({f"cpu/{pod['cgroup_path']}/cpu.cfs_quota_us": case["quota_now"]})
        if case.get("pod_gone"):
            world.run()
        world.forget()
        world.loops.start()
        world.loops.stop()
    return {"files": world.changed(), "panic": False}


def _collect(folder: Path, case: Json, expected: Json) -> Json:
    try:
        return {"cpi": cpi.cpi_of(case["cycles"], case["instructions"])}
    except (KeyError, TypeError, ValueError):  # what was not counted
        return {"error": True}


def _cpi_round(folder: Path, case: Json, expected: Json) -> Json:
    base = case["now"] - 3600 * _SECOND_NS
    online = {name: _online(one, base) for name, one in case["online"].items()}
    pods = {one["pod"]["uid"]: one for one in case["offline"].values()}
    suspects = {uid: _after(one["cpu"], base) for uid, one in pods.items()}
    world = _judged(folder, case["files"], [one["pod"] for one in pods.values()], online, suspects)
    with _counted(supported=False):
        world.round(3600 * _SECOND_NS)
    limited = [name for name, one in case["offline"].items() if one["pod"]["uid"] in world.service.limited]
    return {"files": world.changed(), "limited": sorted(limited)}


STAGES: dict[str, dict[str, Any]] = {
    "psi": {"start": _psi_start, "victim": _victim, "monitor": _monitor},
    "cpuevict": {"round": _round("cpuevict"), "window": _window, "cooldown": _cooldown},
    "memoryevict": {"round": _round("memoryevict"), "check": _check, "cooldown": _cooldown},
    "eviction": {"request": _request, "round_request": _round_request},
    "dynCache": {"dynamic": _dynamic},
    "cpi": {
        "series_add": _series_add,
        "series_range": _series_range,
        "series_normalize": _series_normalize,
        "series_expire": _series_expire,
        "statistic": _statistic,
        "expire": _expire,
        "outlier": _outlier,
        "antagonist": _antagonist,
        "limit": _limit,
        "add": _cpi_add,
        "start": _cpi_start,
        "stop": _cpi_stop,
        "collect_cpi": _collect,
        "round": _cpi_round,
    },
}
