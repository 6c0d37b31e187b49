"""The rows of docs/deviations.md that a case of rubik's can differ by, and how a case is known to.

A case whose note says that it is a defect differs by the row of its stage. Others hold the same defects without a note;
they differ only where what came out and what was recorded show just that. Next: `tests.rubik_cases.limits`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["DEVIATIONS", "deviation"]

Json = dict[str, Any]
_TRAILING, _PATHS = "text after JSON", "cgroups paths of other forms"
_FORGOTTEN, _RETRIES = "pods that a synchronization forgets", "additions that are tried again"
_SETUP, _LAST = "services that cannot start", "limits from an annotation"
_PROCESS, _LEVELS = "pods without a process", "levels of later containers"
_WAYS, _SIGNS, _IDLE = "caches of 20 ways and more", "signs in numbers", "containers without a process"
_PERF = "perf events for static shares"
_DISKS, _BAD, _KEPT = "devices that are no disks", "bad I/O limits", "values that were taken back"
_MINOR, _WORDS = "minor numbers above 255", "words of the command line"
_TOTAL, _LABELS = "memory that is not known", "labels of offline pods"
_UNLIMITED, _EXCESS = "containers without a quota", "quotas below the limit"
_TOP, _SCOPES, _FIRST = "the top slice", "scopes of systemd", "the first sample"
_ONE, _COUNTERS = "one victim a round", "odd counters of victims"
_PROTECTED, _POLICY = "victims that may not go", "the eviction API"
_EMPTY, _LOCKS, _FOLDED = "empty ranges", "limits that fail", "samples without CPU"
_RESTORED, _TICKS = "pods that were never limited", "odd readings of the node"
_COOL, _NONE = "cool-down without an eviction", "samples without instructions"

#: By the stage of a case whose note says that it is a defect; "" for the other stages of a service.
_NOTED: Final[Mapping[tuple[str, str], str]] = {
    ("frame", "config_load"): _TRAILING,
    ("frame", "classify"): _LABELS,
    ("frame", "nri_container_path"): _PATHS,
    ("frame", "nri_pod"): _LAST,
    ("frame", "nri_events"): _FORGOTTEN,
    ("preemption", ""): _LEVELS,
    ("preemption", "add"): _PROCESS,
    ("dynCache", "mask"): _WAYS,
    ("dynCache", "mask_bits"): _SIGNS,
    ("dynCache", "start"): _WAYS,
    ("dynCache", "sync"): _IDLE,
    ("ioLimit", "parse"): _TRAILING,
    ("ioLimit", "device"): _DISKS,
    ("ioLimit", "update"): _KEPT,
    ("ioLimit", ""): _BAD,
    ("ioCost", "support"): _WORDS,
    ("ioCost", ""): _MINOR,
    ("dynMemory", "config_meminfo"): _TOTAL,
    ("dynMemory", "update"): _KEPT,
    ("dynMemory", ""): _LABELS,
    ("quotaBurst", "update"): _KEPT,
    ("quotaBurst", ""): _UNLIMITED,
    ("quotaTurbo", "fast_fallback"): _EXCESS,
    ("quotaTurbo", "write"): _TOP,
    ("quotaTurbo", "tick"): _FIRST,
    ("quotaTurbo", "service_tick"): _SCOPES,
    ("quotaTurbo", ""): _TICKS,
    ("psi", "victim"): _COUNTERS,
    ("psi", ""): _ONE,
    ("cpuevict", "cooldown"): _COOL,
    ("cpuevict", ""): _LABELS,
    ("memoryevict", ""): _LABELS,
    ("eviction", ""): _PROTECTED,
    ("cpi", "limit"): _LOCKS,
    ("cpi", "stop"): _RESTORED,
    ("cpi", "expire"): _FOLDED,
    ("cpi", ""): _EMPTY,
}
#: Words of a note that tell one row from another of the same stage.
_TELLING: Final = (
    ("sign", _SIGNS),
    ("character device", _DISKS),
    ("not a number", _EMPTY),
    ("unlimited", _UNLIMITED),
    ("-1", _UNLIMITED),
    ("utilisation", _FIRST),
    ("label", _LABELS),
)


def deviation(case: Json, found: Json) -> str:
    """Return the row by which a case that came out otherwise differs; "" if there is none."""
    service, stage, note = case["service"], case["stage"], case.get("note", "")
    if note.startswith("defect:") or case["expect"].get("panic"):
        row = next((row for words, row in _TELLING if words in note), "")
        return row or _NOTED.get((service, stage)) or _NOTED.get((service, ""), "")
    seen = _SEEN.get(f"{service}/{stage}")
    return seen(case["input"], found, case["expect"]) if seen else ""


def _paths(given: Json, found: Json, expected: Json) -> str:
    """A slice below those that its name tells, part by part, which is where systemd puts it; else an error."""
    if given["cgroups_path"].count(":") != 2:
        return _PATHS if found == {"error": True} else ""
    parts = given["cgroups_path"].partition(":")[0].removesuffix(".slice").split("-")
    slices = ["-".join(parts[:count]) + ".slice" for count in range(1, len(parts) + 1)]
    moved = str(expected.get("path", "")).startswith("kubepods.slice/")
    return _PATHS if moved and str(found.get("path", "")).split("/")[:-1] == slices else ""


def _events(given: Json, found: Json, expected: Json) -> str:
    steps = [
        {**step, "published": [each for each in step["published"] if each["event"] != "delete"]}
        for step in found["steps"]
    ]
    return _FORGOTTEN if steps == expected["steps"] else ""


def _nri_pod(given: Json, found: Json, expected: Json) -> str:
    same = {**expected, "limits": {}, "requests": {}} == found
    return _LAST if same else ""


def _preemption(given: Json, found: Json, expected: Json) -> str:
    both = found["error"] and expected["error"] and not expected["files"]
    levels = all(path.endswith(".qos_level") for path in found["files"])
    return _PROCESS if both and levels and "net" in given["resource"] else ""


def _levels(given: Json, found: Json, expected: Json) -> str:
    known = {given["old_pod"]["cgroup_path"], *(each["cgroup_path"] for each in given["old_pod"]["containers"])}
    written = {path.partition("/")[2].rpartition("/")[0] for path in found["files"]}
    if not expected["files"] and written and written.isdisjoint(known):
        return _LEVELS
    return _preemption(given, found, expected)


def _ways(given: Json, found: Json, expected: Json) -> str:
    text = given.get("cbm_mask") or given.get("files", {}).get("resctrl/info/L3/cbm_mask", "0")
    if expected["error"] and not found["error"] and int(text.strip() or "0", 16).bit_length() >= 20:
        return _WAYS
    return _PERF if expected["error"] and given.get("perf_supported") is False else ""


def _sync(given: Json, found: Json, expected: Json) -> str:
    folders = [each["cgroup_path"] for pod in given["pods"] for each in pod["containers"]]
    lacking = any(f"cpu/{folder}/cgroup.procs" not in given["files"] for folder in folders)
    more = all(set(texts) <= set(found["tasks"].get(name, ())) for name, texts in expected["tasks"].items())
    return _IDLE if lacking and more else ""


def _minor(given: Json, found: Json, expected: Json) -> str:
    numbers = re.findall(r"\b[0-9]+:([0-9]+)", str(found))
    return _MINOR if any(int(each) > 255 for each in numbers) else ""


def _unreadable(given: Json, found: Json, expected: Json) -> str:
    """An annotation that cannot be read, by which limits went."""
    return _BAD if found["error"] and expected["error"] and not found["files"] else ""


def _burst(given: Json, found: Json, expected: Json) -> str:
    if "new_pod" in given and not (given["new_pod"].get("annotations") or {}).get("volcano.sh/quota-burst-time"):
        return _KEPT if not expected["files"] and set(found["files"].values()) == {"0"} else ""
    unlimited = {path.rpartition("/")[0] for path, text in given["files"].items()
                 if path.endswith("cpu.cfs_quota_us") and text.strip() == "-1"}  # fmt: skip
    return _UNLIMITED if unlimited else ""


def _adjust(given: Json, found: Json, expected: Json) -> str:
    """Containers without a quota take no part; else it is what quotas below the limit do."""
    return _UNLIMITED if any(each["quota"] == -1 for each in given["containers"]) else _excess(given, found, expected)


def _excess(given: Json, found: Json, expected: Json) -> str:
    """Deltas as they are when quotas below the limit have a share in what has to go."""
    use, knobs = (given["utils"] or [0])[-1], given["config"]
    rows = {each["id"]: each["quota"] / each["period"] - each["cpu_limit"] for each in given["containers"]}
    total = sum(rows.values())
    if use < knobs["alarmWaterMark"] or min(rows.values()) >= 0:
        return ""
    less = (knobs["alarmWaterMark"] - use) / 100 * given["ncpu"] / total if total > 0 else 0.0
    for each in given["containers"]:
        was = less * rows[each["id"]] * each["period"]
        ours = found["containers"][each["id"]]["delta"]
        if (
            "next_quota" not in found["containers"][each["id"]]
            and abs(expected["containers"][each["id"]]["delta"] - was) > 1e-3
        ):
            return ""
        if ours > 0 and was < 0:
            return ""
    return _EXCESS


def _top(given: Json, found: Json, expected: Json) -> str:
    folders = [each["cgroup_path"] for each in given.get("add", ())] or [given.get("cgroup_path", "")]
    if any(each.lstrip("/").startswith("kubepods.slice") for each in folders):
        return _TOP
    return _UNLIMITED if given.get("quota") == -1 else ""


def _monitor(given: Json, found: Json, expected: Json) -> str:
    spaces = {each["name"]: each["namespace"] for each in given["offline_pods"]}
    if expected["error"] and "kube-system" in spaces.values() and "kube-system" not in map(spaces.get, found["evict"]):
        return _PROTECTED
    if found["evict"] and found["evict"] == expected["evict"][:1]:
        return _ONE
    words = {(each.get("annotations") or {}).get("volcano.sh/preemptable") for each in given["other_pods"]}
    return "" if words <= {"true", "false"} else _LABELS


def _folded(given: Json, found: Json, expected: Json) -> str:
    """Samples of CPI without one of CPU are left out."""
    known = {at for at, _ in given["cpu"] or ()}
    lacking = any(at < given["before"] and at not in known for at, _ in given["cpi"] or ())
    return _FOLDED if lacking and found["count"] < expected["count"] else ""


def _request(given: Json, found: Json, expected: Json) -> str:
    plain = [{**each, "body": each["body"]["metadata"]["name"]} for each in found["requests"]]
    theirs = [{**each, "body": each["body"]["metadata"]["name"]} for each in expected["requests"]]
    return _POLICY if plain == theirs and found["error"] == expected["error"] else ""


_SEEN: Final[Mapping[str, Callable[[Json, Json, Json], str]]] = {
    "frame/nri_container_path": _paths,
    "frame/nri_events": _events,
    "frame/nri_pod": _nri_pod,
    "frame/dispatch": lambda given, found, expected: _RETRIES if given.get("failing_additions") else "",
    "frame/setup": lambda given, found, expected: _SETUP,
    "preemption/add": _preemption,
    "preemption/update": _levels,
    "dynCache/mask": _ways,
    "dynCache/start": _ways,
    "dynCache/sync": _sync,
    "ioLimit/add": _unreadable,
    "ioLimit/update": _unreadable,
    "ioCost/device": _minor,
    "ioCost/config": _minor,
    "quotaBurst/add": _burst,
    "quotaBurst/update": _burst,
    "quotaTurbo/fast_fallback": _excess,
    "quotaTurbo/adjust": _adjust,
    "quotaTurbo/write": _top,
    "quotaTurbo/tick": _top,
    "psi/monitor": _monitor,
    "memoryevict/check": lambda given, found, expected: _TOTAL if found.get("error") else "",
    "cpi/expire": _folded,
    "cpi/collect_cpi": lambda given, found, expected: "" if given["instructions"] else _NONE,
    "eviction/request": _request,
    "eviction/round_request": _request,
}
DEVIATIONS: Final = frozenset(
    {*_NOTED.values(), *(row for _, row in _TELLING), _RETRIES, _SETUP, _PERF, _POLICY, _ONE, _NONE}
)
