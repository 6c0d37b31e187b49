"""Stages of quotaTurbo. Next: `tests.rubik_cases.evict`."""

from __future__ import annotations

from typing import Any

from nri.config.complaint import WrongValue
from nri.host.usage import parse_cpu_times, parse_flat_keyed
from nri.policies.rubik import quota_turbo as turbo
from nri.policies.rubik.node import Ticks, share
from nri.policies.rubik.quota_turbo import Knobs, Managed, Reading, Turbo
from tests.rubik_cases.tree import Files, pod_of

__all__ = ["STAGES", "ticks_of"]

Json = dict[str, Any]
_QUOTA = "cpu.cfs_quota"


def ticks_of(text: str) -> Ticks:
    """Return the ticks of /proc/stat; waiting for I/O is in use."""
    found = parse_cpu_times(text)
    return Ticks(found.busy + found.io_wait, found.busy + found.idle)


def _knobs(given: Json) -> Knobs:
    return Knobs(**(given.get("config") or {}))


def _managed(each: Json) -> Managed:
    made = Managed(
        each["id"], each["cpu_limit"], each["quota"], each["period"], each["nr_throttled"], each["throttled_time"],
        each["prev_nr_throttled"], each["prev_throttled_time"],
    )  # fmt: skip
    made.usages.extend((one["t_ns"], one["usage_ns"]) for one in each.get("usages") or ())
    return made


def _step(given: Json, which: str) -> Json:
    found, knobs = [_managed(each) for each in given["containers"]], _knobs(given)
    uses = given["utils"] or []
    use = uses[-1] if uses else 0.0
    made = {
        "slow": lambda: turbo.slow_fallback(found, use, knobs),
        "fast": lambda: turbo.fast_fallback(found, use, given["ncpu"], knobs),
        "elevate": lambda: turbo.elevate(found, uses[-1:], given["ncpu"], knobs),
    }[which]()
    return {"containers": {each.folder: {"delta": made.get(each.folder, 0)} for each in found}}


def _adjust(given: Json) -> Json:
    found = [_managed(each) for each in given["containers"]]
    total = turbo.deltas(found, given["utils"] or [], given["ncpu"], _knobs(given))
    shown = {}
    for each in found:
        delta = total[each.folder]
        shown[each.folder] = {
            "delta": delta,
            "height": turbo.height(each.limit, each.period),
            "max_next": turbo.max_next(each.limit, each.period, each.usages),
            "next_quota": turbo.next_quota(each, delta),
        }
    return {"containers": shown}


def _max_next(given: Json) -> Json:
    usages = [(one["t_ns"], one["usage_ns"]) for one in given["usages"] or ()]
    return {"max_next": turbo.max_next(given["cpu_limit"], given["period"], usages)}


def _node_util(given: Json) -> Json:
    try:
        found = [ticks_of(text) for text in given["proc_stat"]]
    except ValueError:
        return {"error": True}
    shown: Json = {"busy": [each.busy for each in found], "total": [each.total for each in found], "error": False}
    return {**shown, "util": share(*found)} if len(found) > 1 else shown


def _chain(files: Files, folder: str, before: int, after: int) -> bool:
    try:
        writes = turbo.chain(folder, before, after, lambda name: files.number(name, _QUOTA))
    except ValueError:
        return False
    changed = [write for write in writes if files.number(write.folder, _QUOTA) != int(write.value)]
    return files.apply(changed, whole=True)


def _write(given: Json) -> Json:
    files = Files(given["files"])
    good = _chain(files, given["cgroup_path"], given["quota"], given["next_quota"])
    after = given["next_quota"] if good else given["quota"]
    return {"error": not good, "files": files.changed(), "quota_after": after}


def _reading(files: Files, folder: str) -> Reading:
    """Return a reading. Raises ValueError if a file is not there or not understood."""
    quota, period = (files.number(folder, name) for name in (_QUOTA, "cpu.cfs_period"))
    name = folder.strip("/")
    stat, usage = files.now.get(f"cpu/{name}/cpu.stat"), files.now.get(f"cpuacct/{name}/cpuacct.usage")
    if quota is None or period is None or stat is None or usage is None:
        raise ValueError(folder)
    table = parse_flat_keyed(stat.strip())
    return Reading(quota, period, table.get("nr_throttled", 0), table.get("throttled_time", 0), int(usage))


def _partly(files: Files, each: Managed) -> Reading:
    """Return a reading in which what cannot be read is as it was."""
    old = Reading(each.quota, each.period, each.throttled, each.throttled_ns, each.usages[-1][1])
    found = [files.number(each.folder, name) for name in (_QUOTA, "cpu.cfs_period")]
    quota, period = (before if now is None else now for before, now in zip(old, found, strict=False))
    try:
        table = parse_flat_keyed(files.now.get(f"cpu/{each.folder.strip('/')}/cpu.stat", "none").strip())
        return old._replace(quota=quota, period=period, throttled=table.get("nr_throttled", 0),
                            throttled_ns=table.get("throttled_time", 0))  # fmt: skip
    except ValueError:
        return old._replace(quota=quota, period=period)


def _add_to(found: Turbo, files: Files, folder: str, limit: float, now: int) -> bool:
    try:
        found.add(folder, limit, _reading(files, folder), now)
    except ValueError:
        return False
    return True


def _add(given: Json) -> Json:
    found = Turbo(given["ncpu"])
    good = _add_to(found, Files(given["files"]), given["cgroup_path"], given["cpu_limit"], 0)
    return {"error": not good, "managed": given["cgroup_path"] in found.managed}


def _release(found: Turbo, files: Files, folder: str) -> bool:
    each = found.managed.get(folder)
    good = each is None or _chain(files, folder, each.quota, int(each.base()))
    if good:
        found.remove(folder)
    return good


def _remove(given: Json) -> Json:
    files, found = Files(given["files"]), Turbo(given["ncpu"])
    folder = given["cgroup_path"]
    _add_to(found, files, folder, given["cpu_limit"], 0)
    if given.get("directory_gone"):
        found.remove(folder)
        return {"error": False, "files": {}, "managed": False}
    good = _release(found, files, folder)
    return {"error": not good, "files": files.changed(), "managed": folder in found.managed}


def _options(given: Json) -> Json:
    root = given.pop("cgroupRoot", "/sys/fs/cgroup")
    try:
        made, error = Knobs(**given), False
    except WrongValue:
        made, error = Knobs(), True
    return {"cgroupRoot": root, "error": error, **{name: getattr(made, name) for name in Knobs.__slots__}}


def _round(found: Turbo, files: Files, now: int) -> bool:
    readings, good = {}, True
    for folder, each in found.managed.items():
        try:
            readings[folder] = _reading(files, folder)
        except ValueError:
            good = False
            readings[folder] = _partly(files, each)
    for folder, quota in found.decide(readings, now).items():
        if _chain(files, folder, readings[folder].quota, quota):
            found.managed[folder].quota = quota
        else:
            good = False
    return good


def _tick(given: Json) -> Json:
    files, found = Files(given["files"]), Turbo(given["ncpu"], _knobs(given))
    added = [
        not _add_to(found, files, each["cgroup_path"], each["cpu_limit"], given["add_t_ns"]) for each in given["add"]
    ]
    steps = []
    for step in given["ticks"]:
        _replace(files, step)
        use = found.observe(ticks_of(step["proc_stat"]), step["t_ns"])
        good = _round(found, files, step["t_ns"])
        steps.append({"error": not good, "util": use, "files": files.changed()})
        files.forget()
    return {"add_error": added, "ticks": steps}


def _replace(files: Files, step: Json) -> None:
    for path, text in (step["files"] or {}).items():
        if text is None:
            files.now.pop(path, None)
        else:
            files.now[path] = text
    files.forget()


def _service_tick(given: Json) -> Json:
    files, found = Files(given["files"]), Turbo(given["ncpu"], _knobs(given))
    steps = []
    for step in given["ticks"]:
        _replace(files, step)
        wanted = {each["cgroup_path"]: each["cpu_limit"] for each in step.get("containers", given["containers"])}
        for folder in [each for each in found.managed if each not in wanted]:
            _release(found, files, folder)
        for folder, limit in wanted.items():
            if folder not in found.managed:
                _add_to(found, files, folder, limit, step["t_ns"])
        if "proc_stat" in step:
            found.observe(ticks_of(step["proc_stat"]), step["t_ns"])
            _round(found, files, step["t_ns"])
        steps.append({"files": files.changed(), "managed": sorted(found.managed)})
        files.forget()
    return {"ticks": steps}


def _restore(given: Json) -> Json:
    if given["pods"] is None:
        return {"error": True, "files": {}}
    files = Files(given["files"])
    for each in given["pods"]:
        if files.read(each["cgroup_path"], _QUOTA) is None:
            continue
        files.apply(turbo.restored(pod_of(each), lambda folder: files.number(folder, "cpu.cfs_period")))
    return {"error": False, "files": files.changed()}


STAGES = {
    "quotaTurbo": {
        "slow_fallback": lambda given: _step(given, "slow"),
        "fast_fallback": lambda given: _step(given, "fast"),
        "elevate": lambda given: _step(given, "elevate"),
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
