"""Stages of quotaTurbo: its arithmetic by itself, and its service over readings of a machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik import quota_turbo as turbo
from nri.agent.rubik.quota_turbo import Candidate, Knobs, ManagedContainer, Quotas
from nri.agent.rubik.service import Service, Services, share, ticks
from nri.config.complaint import WrongValue
from tests.rubik_cases.world import CaseWorld, Json

__all__ = ["STAGES"]

_TURBO = {"volcano.sh/quota-turbo": "true"}
_USE = re.compile(r"the node's CPU usage is ([\d.]+) %")


def _knobs(case: Json) -> Knobs:
    return Knobs(**(case.get("config") or {}))


def _managed(one: Json) -> ManagedContainer:
    managed = ManagedContainer(
        one["id"], one["cpu_limit"], one["quota"], one["period"], one["nr_throttled"], one["throttled_time"],
        one["prev_nr_throttled"], one["prev_throttled_time"],
    )  # fmt: skip
    managed.usages.extend((reading["t_ns"], reading["usage_ns"]) for reading in one.get("usages") or ())
    return managed


def _shown(managed: list[ManagedContainer], deltas: turbo.Deltas) -> Json:
    return {"containers": {one.folder: {"delta": deltas.get(one.folder, 0)} for one in managed}}


def _slow_fallback(folder: Path, case: Json, expected: Json) -> Json:
    managed = [_managed(one) for one in case["containers"]]
    return _shown(managed, turbo.slow_fallback(managed, (case["utils"] or [0.0])[-1], _knobs(case)))


def _fast_fallback(folder: Path, case: Json, expected: Json) -> Json:
    managed = [_managed(one) for one in case["containers"]]
    use = (case["utils"] or [0.0])[-1]
    return _shown(managed, turbo.fast_fallback(managed, use, case["ncpu"], _knobs(case)))


def _elevate(folder: Path, case: Json, expected: Json) -> Json:
    """The step alone, for which the last use counts: that it swings is another step's in the records."""
    managed = [_managed(one) for one in case["containers"]]
    return _shown(managed, turbo.elevate(managed, (case["utils"] or [])[-1:], case["ncpu"], _knobs(case)))


def _adjust(folder: Path, case: Json, expected: Json) -> Json:
    managed = [_managed(one) for one in case["containers"]]
    deltas = turbo.deltas(managed, case["utils"] or [], case["ncpu"], _knobs(case))
    return {
        "containers": {
            one.folder: {
                "delta": deltas[one.folder],
                "height": turbo.height(one.limit, one.period),
                "max_next": turbo.max_next(one.limit, one.period, one.usages),
                "next_quota": turbo.next_quota(one, deltas[one.folder]),
            }
            for one in managed
        }
    }


def _max_next(folder: Path, case: Json, expected: Json) -> Json:
    usages = [(one["t_ns"], one["usage_ns"]) for one in case["usages"] or ()]
    return {"max_next": turbo.max_next(case["cpu_limit"], case["period"], usages)}


def _node_util(folder: Path, case: Json, expected: Json) -> Json:
    readings = []
    for text in case["proc_stat"]:
        world = CaseWorld(folder / str(len(readings)))
        world.put("/proc/stat", text)
        sample = world.sample()
        reading = ticks(sample)
        if reading is None:
            return {"error": True}
        readings.append(reading)
    shown = {"busy": [one.busy for one in readings], "total": [one.total for one in readings], "error": False}
    return {**shown, "util": share(*readings)} if len(readings) > 1 else shown


def _options(folder: Path, case: Json, expected: Json) -> Json:
    root = case.pop("cgroupRoot", "/sys/fs/cgroup")
    try:
        knobs, error = Knobs(**case), False
    except WrongValue:
        knobs, error = Knobs(), True
    return {"cgroupRoot": root, "error": error, **{name: getattr(knobs, name) for name in Knobs.__slots__}}


# -- the service ------------------------------------------------------------------------------------------------------


class _Writes(Service):
    """A service that has one container's quota changed, by the changes of quotaTurbo's ticks."""

    name = "quotaTurbo"
    interval_s, change = 0.0, ("", 0, 0)

    def is_needed(self, rules: Services) -> bool:
        """Whether there is work: always."""
        return True

    def round(self, created: Round[Services]) -> None:
        """Change the quota."""
        quotas = Quotas(created)
        path, before, after = self.change
        pod: Pod = created.pods[0]
        quotas.change(path, before, after, Candidate(pod, "app", 1.0), "a case has it so")
        quotas.send()


def _write(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, case["files"], quotaTurbo={})
    service = _Writes(world.settings, [])
    service.change = (case["cgroup_path"].strip("/"), case["quota"], case["next_quota"])
    world.use(service)
    world.run(_pod([]))
    world.round()
    error = bool(world.problems)
    return {
        "error": error, "files": world.changed(), "quota_after": case["quota"] if error else case["next_quota"],
    }  # fmt: skip


def _pod(containers: list[Json], annotations: Json | None = None) -> Json:
    """The pod of containers that all have one folder above them."""
    top = containers[0]["cgroup_path"].rpartition("/")[0] if containers else "kubepods/podnone"
    rows = [{**one, "id": one.get("id") or f"c{number}", "name": f"c{number}"} for number, one in enumerate(containers)]
    return {"name": "p", "uid": "uid-p", "cgroup_path": top, "containers": rows,
            "annotations": _TURBO if annotations is None else annotations}  # fmt: skip


def _pods(containers: list[Json]) -> list[Json]:
    """The pods of containers, by the folders above them."""
    above: dict[str, list[Json]] = {}
    for one in containers:
        above.setdefault(one["cgroup_path"].rpartition("/")[0], []).append(one)
    pods = []
    for number, rows in enumerate(above.values()):
        pods.append({**_pod(rows), "name": f"p{number}", "uid": f"uid-p{number}"})
        for row in pods[-1]["containers"]:
            row["id"] = f"{number}-{row['id']}"
    return pods


def _world(folder: Path, case: Json) -> CaseWorld:
    config = {key: value for key, value in (case.get("config") or {}).items() if key.endswith("WaterMark")}
    return CaseWorld(folder, case["files"], cpus=case.get("ncpu") or 4, quotaTurbo=config)


def _end(world: CaseWorld) -> None:
    """Have the service close the files that it holds open."""
    world.run()
    world.round()


def _add(folder: Path, case: Json, expected: Json) -> Json:
    world = _world(folder, case)
    world.run(_pod([case]) if case["cgroup_path"] else {**_pod([]), "containers": []})
    world.round()
    managed = len(world.service) == 1
    _end(world)
    return {"error": not managed, "managed": managed}


def _remove(folder: Path, case: Json, expected: Json) -> Json:
    world = _world(folder, case)
    world.run(_pod([case]))
    world.unread_use()
    world.round()
    world.forget()
    if case.get("directory_gone"):
        world.lay(dict.fromkeys(case["files"]))
    else:
        world.run(_pod([case], {}))
        world.round()
        actual = world.changed()
        return {"error": bool(world.executor.failed), "files": actual, "managed": bool(len(world.service))}
    world.forget()
    world.run()
    world.round()
    return {"error": bool(world.executor.failed), "files": world.changed(), "managed": bool(len(world.service))}


def _tick(folder: Path, case: Json, expected: Json) -> Json:
    world = _world(folder, case)
    world.run(*_pods(case["add"]))
    start_ns = case["add_t_ns"]
    world.unread_use()  # containers are taken in, and nothing is decided
    world.round(0)
    accepted = [one["cgroup_path"].strip("/") in world.service.managed for one in case["add"]]
    steps = [_step(world, step, start_ns) for step in case["ticks"]]
    _end(world)
    return {"add_error": [not managed for managed in accepted], "ticks": steps}


def _step(world: CaseWorld, step: Json, start_ns: int) -> Json:
    world.lay(step["files"] or {})
    world.put("/proc/stat", step["proc_stat"])
    world.forget()
    world.executor.failed.clear()
    world.round(step["t_ns"] - start_ns)
    use = world.service.use_percent
    return {"error": bool(world.problems), "util": use, "files": world.changed()}


def _service_tick(folder: Path, case: Json, expected: Json) -> Json:
    world, steps = _world(folder, case), []
    start_ns = case["ticks"][0]["t_ns"]
    for step in case["ticks"]:
        containers = step.get("containers", case["containers"])
        world.run(*_pods(containers))
        world.lay(step["files"] or {})
        for name in step["files"] or {}:
            if name.endswith("/cpu.stat"):  # what was throttled has run, for which the records have no nanosecond
                usage = world.path(name.replace("cpu/", "cpuacct/", 1).replace("cpu.stat", "cpuacct.usage"))
                usage.write_text(f"{int(usage.read_text()) + 1}\n")
        if "proc_stat" in step:
            world.put("/proc/stat", step["proc_stat"])
        world.forget()
        world.round(step["t_ns"] - start_ns)
        paths = {one["cgroup_path"] for one in containers}
        managed = sorted(path for path in paths if path.strip("/") in world.service.managed)
        steps.append({"files": world.changed(), "managed": managed})
    _end(world)
    return {"ticks": steps}


def _restore(folder: Path, case: Json, expected: Json) -> Json:
    """The start of the service with pods that run, or its end."""
    world = CaseWorld(folder, case.get("files"), quotaTurbo={})
    world.run(*(case["pods"] or ()))
    world.round()
    world.loops.start()
    world.loops.stop()
    return {"error": bool(world.executor.failed), "files": world.changed()}


STAGES: dict[str, dict[str, Any]] = {
    "quotaTurbo": {
        "slow_fallback": _slow_fallback,
        "fast_fallback": _fast_fallback,
        "elevate": _elevate,
        "adjust": _adjust,
        "max_next": _max_next,
        "node_util": _node_util,
        "write": _write,
        "add": _add,
        "remove": _remove,
        "options": _options,
        "tick": _tick,
        "service_tick": _service_tick,
        "start": _restore,
        "stop": _restore,
    }
}
