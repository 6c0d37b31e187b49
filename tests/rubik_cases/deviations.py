"""The rows of docs/deviations-agent.md that a case can differ by, each with the outcome that is expected then.

`deviation` yields the rows that apply to a case's input, with the expected outcome; a case with another outcome fails.
The outcomes are computed from the input and from rubik's outcome, not by the tested code. The exception is the ticks
of quotaTurbo: separate stages check their arithmetic.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from nri.agent.rubik.quota_turbo import Knobs, Reading, Turbo
from nri.agent.rubik.service import Ticks
from nri.host.usage import parse_cpu_times, parse_flat_keyed
from tests.rubik_cases.expected import device_rows
from tests.rubik_cases.world import Json, rows

__all__ = ["DEVIATIONS", "deviation"]

Row = tuple[str, Json]
_TRAILING, _TWICE, _PATHS = "text after JSON", "keys that are there twice", "cgroups paths of other forms"
_CLASS, _NO_ID, _NO_PARENT = "pods without a class", "containers without an id", "pods without a folder"
_RETRIES, _SETUP, _LAST = "additions that are tried again", "services that cannot start", "limits from an annotation"
_NOTHING, _MISSING = "calls without an object", "files that are missing"
_PROCESS, _LEVELS, _LABELS = "pods without a process", "levels of later containers", "labels of offline pods"
_WAYS, _SIGNS, _IDLE = "caches of 20 ways and more", "signs in numbers", "containers without a process"
_PERF, _PIDS = "perf events for static shares", "the pid namespace"
_DISKS, _BAD, _OTHERS, _KEPT = (
    "devices that are no disks",
    "bad I/O limits",
    "what others have set",
    "values that were taken back",
)
_LAST_GOOD = "annotations that cannot be read"
_MINOR, _WORDS, _NAMES = "minor numbers above 255", "words of the command line", "names of disks"
_TOTAL, _UNLIMITED, _EXCESS = "memory that is not known", "containers without a quota", "quotas below the limit"
_SMALL, _TOP, _SCOPES = "limits below 10 thousandths of a CPU", "the top slice", "scopes of systemd"
_ABOVE, _FIRST, _TICKS = "quotas of the cgroups above", "the first sample", "odd readings of the node"
_BACK, _UNREAD, _ENDS = "counters that go back", "containers that cannot be read", "quotas at start and end"
_ONE, _COUNTERS, _PROTECTED = "one victim a round", "odd counters of victims", "victims that may not go"
_POLICY, _EMPTY, _LOCKS = "the eviction API", "empty ranges", "limits that fail"
_FOLDED, _RESTORED, _NONE = "samples without CPU", "pods that were never limited", "samples without instructions"
_NO_QUOTA = "offline pods without quotas"
DEVIATIONS: Final = frozenset(
    {
        _TRAILING, _TWICE, _PATHS, _CLASS, _NO_ID, _NO_PARENT, _RETRIES, _SETUP, _LAST, _NOTHING, _MISSING, _PROCESS,
        _LEVELS, _LABELS, _WAYS, _SIGNS, _IDLE, _PERF, _PIDS, _DISKS, _BAD, _OTHERS, _KEPT, _LAST_GOOD, _MINOR, _WORDS,
        _NAMES, _TOTAL, _UNLIMITED, _EXCESS, _SMALL, _TOP, _SCOPES, _ABOVE, _FIRST, _TICKS, _BACK, _UNREAD, _ENDS, _ONE,
        _COUNTERS, _PROTECTED, _POLICY, _EMPTY, _LOCKS, _FOLDED, _RESTORED, _NONE, _NO_QUOTA,
    }
)  # fmt: skip
_ERROR: Final[Json] = {"error": True}
_PREEMPTIBLE: Final = "volcano.sh/preemptable"
_LEAST_QUOTA: Final = 1000


def deviation(case: Json, expected: Json) -> list[Row]:
    """Return the rows that a case's input meets, with the outcome that each expects; `expected` is what rubik did."""
    service, stage = case["service"], case["stage"]
    table = _STAGES.get((service, stage)) or (_config if stage == "config" else None)
    collected: list[Row] = []
    try:
        for row in table(case["input"], expected) if table is not None else ():
            collected.append(row)  # noqa: PERF402  those before an error count
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        pass  # an input of another form meets no further row
    return collected


# -- pods -------------------------------------------------------------------------------------------------------------


def _words(pod: Json, part: str) -> Mapping[str, str]:
    return pod.get(part) or {}


def _offline(pod: Json) -> bool:
    annotation = _words(pod, "annotations").get(_PREEMPTIBLE)
    label = _words(pod, "labels").get(_PREEMPTIBLE)
    return annotation == "true" or (label == "true" and annotation != "false")


def _spared(pod: Json) -> bool:
    """Whether a pod is offline for rubik, by its label, and not here."""
    return _words(pod, "labels").get(_PREEMPTIBLE) == "true" and _words(pod, "annotations").get(_PREEMPTIBLE) == "false"


def _folders(pod: Json) -> list[str]:
    return [pod["cgroup_path"], *(one["cgroup_path"] for one in pod.get("containers") or ())]


def _pods(case: Json) -> list[Json] | None:
    """The pods of a stage; None if it was called with none."""
    pods = case["pods"] if "pods" in case else [case.get("new_pod", case.get("pod"))]
    return None if pods is None or None in pods else pods


def _of_nothing(case: Json, expected: Json) -> Iterator[Row]:
    if _pods(case) is None:
        yield _NOTHING, {**expected, **({"error": False} if "error" in expected else {}), **_empty(expected)}


def _empty(expected: Json) -> Json:
    return {key: {} for key in ("files", "limits") if key in expected}


# -- frame ------------------------------------------------------------------------------------------------------------


def _config_load(case: Json, expected: Json) -> Iterator[Row]:
    text = case["text"].lstrip()
    if text[json.JSONDecoder().raw_decode(text)[1] :].strip():
        yield _TRAILING, _ERROR
    yield from _twice(text)


def _twice(text: str) -> Iterator[Row]:
    collected: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> Json:
        collected.append(len({key for key, _ in items}) < len(items))
        return dict(items)

    json.JSONDecoder(object_pairs_hook=pairs).raw_decode(text)
    if any(collected):
        yield _TWICE, _ERROR


def _config(case: Json, expected: Json) -> Iterator[Row]:
    yield from _twice(case["block"])


def _services(case: Json, expected: Json) -> Iterator[Row]:
    yield from _config_load(case, expected)


def _classify(case: Json, expected: Json) -> Iterator[Row]:
    if _spared(case):
        yield _LABELS, {"offline": False}


def _pod_folder(case: Json) -> str:
    """The folder of a best-effort pod."""
    uid = case.get("config_hash") or case["uid"]
    if case["driver"] == "cgroupfs":
        return f"kubepods/besteffort/pod{uid}"
    return f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid.replace('-', '_')}.slice"


def _pod_path(case: Json, expected: Json) -> Iterator[Row]:
    if case["qos_class"] == "":
        yield _CLASS, {"path": _pod_folder(case)}


def _container_path(case: Json, expected: Json) -> Iterator[Row]:
    runtime, mark, number = case["container_id"].partition("://")
    prefix = {"containerd": "cri-containerd-", "docker": "docker-", "cri-o": "crio-", "iSulad": "isulad-"}.get(runtime)
    if case["qos_class"] == "" and mark and number and prefix:
        systemd = case["driver"] == "systemd"
        name = f"{prefix}{number}.scope" if systemd else f"crio-{number}" if runtime == "cri-o" else number
        yield _CLASS, {"paths": [f"{_pod_folder(case)}/{name}"]}


def _nri_path(case: Json, expected: Json) -> Iterator[Row]:
    """A slice below those that its name has, part by part, and a scope in it; another form is taken as it is."""
    text = case["cgroups_path"]
    slice_, prefix, number = text.split(":") if text.count(":") == 2 else ("", "", "")
    parts = slice_.removesuffix(".slice").split("-")
    if slice_.endswith(".slice") and all(parts) and number and "/" not in slice_:
        slices = "/".join("-".join(parts[:count]) + ".slice" for count in range(1, len(parts) + 1))
        yield _PATHS, {"path": f"{slices}/{prefix}-{number}.scope"}
    yield _PATHS, {"path": text.strip("/")}


def _join(case: Json, expected: Json) -> Iterator[Row]:
    if not case["container_id"]:
        yield _NO_ID, _ERROR


def _nri_pod(case: Json, expected: Json) -> Iterator[Row]:
    if case.get("cgroup_parent") is None:
        offline = _offline(case)
        path = f"kubepods.slice/kubepods-pod{case['uid'].replace('-', '_')}.slice"
        yield _NO_PARENT, {"limits": {}, "requests": {}, "cgroup_path": path, "host_network": False, "offline": offline}
    yield _LAST, {**expected, "limits": {}, "requests": {}}
    if _spared(case):
        yield _LABELS, {**expected, "offline": False}


def _nri_events(case: Json, expected: Json) -> Iterator[Row]:
    """What is known after each event, where a path of another form does not end the program."""
    pods: dict[str, set[str]] = {}
    steps = []
    for event in case["events"]:
        uid, what = f"uid-{event.get('pod')}", event["event"]
        if what in ("sync_pods", "sync_containers"):
            pods = {uid: {event["container"]} if what == "sync_containers" else set()}
        elif what == "run_pod":
            pods.setdefault(uid, set())
        elif what == "remove_pod":
            pods.pop(uid, None)
        elif what == "start_container":
            pods.setdefault(uid, set()).add(event["container"])
        elif uid in pods:
            pods[uid].discard(event.get("container", ""))
        steps.append({"pods": {key: sorted(names) for key, names in pods.items()}})
    yield _PATHS, {"steps": steps}


def _dispatch(case: Json, expected: Json) -> Iterator[Row]:
    if case.get("failing_additions"):
        yield _RETRIES, {**expected, "add_calls": 1}


def _setup(case: Json, expected: Json) -> Iterator[Row]:
    """The service that fails is reported, and both have their rounds; then it does its work."""
    yield _SETUP, {"error": bool(case.get("one_start_fails")), "rounds": [2, 2], "error_later": False}


# -- preemption -------------------------------------------------------------------------------------------------------

_LEVEL_FILES: Final = {
    "cpu": ("cpu", "cpu.qos_level", "-1"),
    "memory": ("memory", "memory.qos_level", "-1"),
    "net": ("net_cls", "net_cls.classid", "4294967295"),
}


def _process(case: Json, pod: Json) -> int:
    for container in pod.get("containers") or ():
        text = case["files"].get(f"net_cls/{container['cgroup_path']}/cgroup.procs", "")
        numbers = [int(word) for word in text.split() if int(word)]
        if numbers:
            return numbers[0]
    return 0


def _levels(case: Json, pod: Json, folders: list[str]) -> tuple[Json, bool]:
    """The files of an offline pod's levels, and whether one is missing."""
    files, missing = {}, False
    for resource in case["resource"]:
        controller, file, value = _LEVEL_FILES[resource]
        for folder in folders:
            name = f"{controller}/{folder}/{file}"
            missing = missing or name not in case["files"]
            if name in case["files"]:
                files[name] = value
    return files, missing


def _network(case: Json, pod: Json) -> tuple[Json, bool]:
    """The file that puts a pod's network under control, and whether the process for that is missing."""
    pid = _process(case, pod)
    expected = "net" in case["resource"]
    control = expected and pid and not pod.get("host_network") and "proc/net_qos_enable" in case["files"]
    return ({"proc/net_qos_enable": str(pid)} if control else {}), expected and not pid


def _online(case: Json, pod: Json) -> Json:
    """An online pod: nothing is set, and a level that is not 0 is reported."""
    files, without = _network(case, pod)
    resources = [name for name in case["resource"] if name != "net" or not without]
    texts = [case["files"].get(f"{_LEVEL_FILES[name][0]}/{folder}/{_LEVEL_FILES[name][1]}")
             for name in resources for folder in _folders(pod)]  # fmt: skip
    return {"error": without or any(text is None or text.strip() != "0" for text in texts), "files": files}


def _preemption(case: Json, expected: Json) -> Iterator[Row]:
    yield from _of_nothing(case, expected)
    old, pods = case.get("old_pod"), _pods(case) or []
    if "pods" in case or not pods:
        return
    pod = pods[0]
    if _offline(pod) and old is not None and _offline(old):
        later = [folder for folder in _folders(pod) if folder not in _folders(old)]
        files, missing = _levels(case, pod, later)
        yield _LEVELS, {"error": missing, "files": _changed(case, files)}
    elif _offline(pod):
        files, missing = _levels(case, pod, _folders(pod))
        network, without = _network(case, pod)
        if without:
            yield _PROCESS, {"error": True, "files": _changed(case, {**files, **network})}
    elif _spared(pod):
        yield _LABELS, _online(case, pod)


def _changed(case: Json, files: Json) -> Json:
    return {name: text for name, text in files.items() if (case["files"].get(name) or "\0").strip() != text}


# -- dynCache ---------------------------------------------------------------------------------------------------------


def _bits(text: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]+", text.strip()):
        raise ValueError(text)
    return max(int(text, 16).bit_length(), 1)


def _mask_bits(case: Json, expected: Json) -> Iterator[Row]:
    if re.search(r"[-+]", case["cbm_mask"]):
        yield _SIGNS, _ERROR
    yield _WAYS, {"bits": _bits(case["cbm_mask"]), "error": False}


def _share(width: int, percent: int) -> str:
    return f"{(1 << max(width * percent // 100, 1)) - 1:x}"


def _mask(case: Json, expected: Json) -> Iterator[Row]:
    if re.search(r"[-+]", case["cbm_mask"]):
        yield _SIGNS, _ERROR
    width = _bits(case["cbm_mask"])
    if width >= 20:
        yield _WAYS, {"error": False, "mask": _share(width, case["percent"])}


def _cache_start(case: Json, expected: Json) -> Iterator[Row]:
    cache, band = case["config"]["l3Percent"], case["config"]["memBandPercent"]
    width, domains = _bits(case["files"]["resctrl/info/L3/cbm_mask"]), range(case["numa_nodes"])
    levels = {"low": "low", "middle": "mid", "high": "high", "dynamic": "low"}
    percents = {name: (cache[key], band[key]) for name, key in levels.items()} | {"max": (100, 100)}
    files = {}
    for name, (l3, mb) in percents.items():
        ways = ";".join(f"{number}={_share(width, l3)}" for number in domains)
        parts = ";".join(f"{number}={mb}" for number in domains)
        files[f"resctrl/rubik_{name}/schemata"] = f"L3:{ways}\nMB:{parts}"
    row = _WAYS if width >= 20 else _PERF if case.get("perf_supported") is False else _PIDS
    if "resctrl/schemata" in case["files"]:
        yield row, {"dynamic": {"l3": cache["low"], "mb": band["low"]}, "error": False, "files": files}


def _cache_sync(case: Json, expected: Json) -> Iterator[Row]:
    tasks: dict[str, list[str]] = {}
    default = {"static": "max", "dynamic": "dynamic"}[case["defaultLimitMode"]]
    for pod in filter(_offline, case["pods"]):
        level = _words(pod, "annotations").get("volcano.sh/cache-limit") or default
        if level in ("low", "middle", "high", "max", "dynamic"):
            for container in pod["containers"]:
                text = case["files"].get(f"cpu/{container['cgroup_path']}/cgroup.procs", "")
                tasks.setdefault(f"resctrl/rubik_{level}/tasks", []).extend(set(text.split()) - {"0"})
    row = _LABELS if any(map(_spared, case["pods"])) else _IDLE
    yield row, {"tasks": {name: sorted(numbers) for name, numbers in tasks.items() if numbers}}


# -- ioLimit ----------------------------------------------------------------------------------------------------------

_LIMIT_KEYS: Final = {
    f"device_{way}": f"blkio.throttle.{way}_device" for way in ("read_bps", "write_bps", "read_iops", "write_iops")
}


def _parse(case: Json, expected: Json) -> Iterator[Row]:
    text = case["annotation"].lstrip()
    if text[json.JSONDecoder().raw_decode(text)[1] :].strip():
        yield _TRAILING, _ERROR
    yield from _twice(text)


def _reset_text(case: Json, expected: Json) -> Iterator[Row]:
    yield _OTHERS, {"text": "\n".join(case["text"].strip().splitlines())}


def _device(case: Json, expected: Json) -> Iterator[Row]:
    if re.search(r"[-+]", case["device"]):
        yield _SIGNS, _ERROR
    elif case["device"].startswith("/dev/"):
        yield _DISKS, _ERROR


class _Unreadable(ValueError):
    """An annotation that is not JSON of its shape."""


def _requested_limits(case: Json, pod: Json) -> tuple[dict[str, dict[str, str]], bool]:
    """The limits that a pod's annotation sets, by file and disk, and whether a row has no number."""
    text = _words(pod, "annotations").get("volcano.sh/blkio-limit")
    try:
        tree = json.loads(text) if text else {}
        if not isinstance(tree, dict):
            raise _Unreadable
        collected: dict[str, dict[str, str]] = {}
        bad = False
        for key, file in _LIMIT_KEYS.items():
            for row in tree.get(key) or ():
                device, value = row.get("device") or "", row.get("value") or ""
                if not (isinstance(device, str) and isinstance(value, str)):
                    raise _Unreadable
                known_entry = case["devices"].get(device, "") if device.startswith("/dev/") else ""
                disk = device if re.fullmatch(r"[0-9]{1,18}:[0-9]{1,18}", device) else known_entry
                number = re.fullmatch(r"[0-9]+", value) and int(value) < 1 << 64
                bad = bad or not number
                if disk and number:
                    collected.setdefault(file, {})[disk] = value
    except (ValueError, AttributeError, TypeError):
        raise _Unreadable from None
    return collected, bad


def _limit(case: Json, expected: Json) -> Iterator[Row]:
    """The limits of containers: those of others stay, and those that a pod no longer asks for go."""
    yield from _of_nothing(case, {**expected, "limits": _limit_rows(case)} if _pods(case) is None else expected)
    limits = _limit_rows(case)
    row, error = _OTHERS, False
    for pod in _pods(case) or ():
        old = case.get("old_pod")
        was: dict[str, dict[str, str]] = {}
        with suppress(_Unreadable):
            was = _requested_limits(case, old)[0] if old is not None else {}
        try:
            requested, bad = _requested_limits(case, pod)
        except _Unreadable:
            requested, bad, error = was, True, True
        row = _BAD if bad else row
        row = _KEPT if was and not requested else row
        for container in pod.get("containers") or ():
            for file in _LIMIT_KEYS.values():
                name = f"blkio/{container['cgroup_path']}/{file}"
                expected_value, removed = requested.get(file, {}), set(was.get(file, {})) - set(requested.get(file, {}))
                if name not in case["files"]:
                    error = error or bool(expected_value)
                    continue
                now = {
                    **{disk: value for disk, value in limits.get(name, {}).items() if disk not in removed},
                    **expected_value,
                }
                limits[name] = {disk: value for disk, value in now.items() if int(value or 0) or not value.isdecimal()}
    yield row, {"error": error, "limits": {name: actual for name, actual in limits.items() if actual}}


def _limit_rows(case: Json) -> dict[str, dict[str, str]]:
    files = case.get("files") or {}
    return {name: rows(text) for name, text in files.items() if ".throttle." in name and rows(text)}


# -- ioCost -----------------------------------------------------------------------------------------------------------


def _numbers(devices: Json) -> dict[str, str]:
    return {name: what.partition(" ")[2] for name, what in devices.items() if what.startswith("block ")}


def _cost_device(case: Json, expected: Json) -> Iterator[Row]:
    disks, name = _numbers(case["devices"]), case["dev"]
    if name.startswith("/dev/"):
        number = disks.get(name.removeprefix("/dev/"))
        yield _NAMES, {"device": number, "error": False} if number else _ERROR
    elif name in disks:
        yield _MINOR, {"device": disks[name], "error": False}
    else:
        yield _DISKS, _ERROR


def _cost_support(case: Json, expected: Json) -> Iterator[Row]:
    if case["cmdline"] is not None and "cgroup1_writeback" not in case["cmdline"].split():
        yield _WORDS, {"supported": False}


def _cost_config(case: Json, expected: Json) -> Iterator[Row]:
    """The rows set, with Linux device numbers, next to the existing rows of others; none from a refused file."""
    files = {name: text for name, text in case["files"].items() if name.startswith("blkio/blkio.cost.")}
    before = {name: actual for name, text in files.items() if (actual := device_rows(text, []))}
    numbers: Json = {}
    for number in _numbers(case["devices"]).values():
        major, minor = map(int, number.split(":"))
        device = minor & 0xFF | major << 8 | (minor & ~0xFF) << 12
        numbers[f"{device // 256}:{device % 256}"] = number
    stated = {}
    for name in {*before, *expected["rows"]}:
        own_part = {numbers.get(disk, disk): text for disk, text in expected["rows"].get(name, {}).items()}
        stated[name] = {**before.get(name, {}), **own_part}
    if expected["error"]:
        yield _OTHERS, {"error": True, "rows": before}
    else:
        moved = any(
            number in text
            for number in numbers
            if numbers[number] != number
            for text in map(str, expected["rows"].values())
        )
        yield (_MINOR if moved else _OTHERS), {"error": False, "rows": stated}


def _cost_stop(case: Json, expected: Json) -> Iterator[Row]:
    files = case.get("files") or {}
    before = {name: actual for name, text in files.items() if (actual := device_rows(text, []))}
    yield _OTHERS, {"error": False, "rows": before}


def _cost_pods(case: Json, expected: Json) -> Iterator[Row]:
    yield from _of_nothing(case, expected)
    files, missing, pods = {}, False, _pods(case) or []
    for pod in pods:
        weight = f"blkio/{pod['cgroup_path']}/blkio.cost.weight"
        bound = f"memory/{pod['cgroup_path']}/memory.wb_blkio_ino"
        missing = missing or not {weight, bound} <= case["files"].keys()
        values = {weight: "10" if _offline(pod) else "1000", bound: "<inode of the pod's blkio directory>"}
        bound_to = any(name.startswith(f"blkio/{pod['cgroup_path']}/") for name in case["files"])
        files |= {name: text for name, text in values.items() if name in case["files"] and (name == weight or bound_to)}
    row = _LABELS if any(map(_spared, pods)) else _MISSING
    yield row, {"error": missing, "files": _changed(case, files)}


# -- dynMemory --------------------------------------------------------------------------------------------------------


def _config_meminfo(case: Json, expected: Json) -> Iterator[Row]:
    if expected["start_panic"]:
        yield _TOTAL, {**expected, "start_panic": False, "start_error": True}


def _memory_pods(case: Json, expected: Json) -> Iterator[Row]:
    """An offline pod has a limit, whichever label makes it offline; a pod that becomes online loses its limit."""
    yield from _of_nothing(case, expected)
    files, missing, pods = {}, False, _pods(case) or []
    high = case["mem_total_kb"] * 1024 * 8 // 10 if "mem_total_kb" in case else 0
    old, row = case.get("old_pod"), _LABELS
    for pod in pods:
        name = f"memory/{pod['cgroup_path']}/memory.high"
        values = {name: str(high), f"{name}_async_ratio": "80"} if _offline(pod) else {}
        if not values and old is not None and _offline(old):
            values, row = {name: "-1"}, _KEPT
        if any(file not in case["files"] for file in values):
            row, missing = _MISSING, missing or name not in case["files"]
        if name in case["files"]:  # without it there is no limit at all on this machine
            files |= {file: value for file, value in values.items() if file in case["files"]}
    yield row, {"error": missing, "files": _changed(case, files)}


# -- quotaBurst -------------------------------------------------------------------------------------------------------


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else None


def _burst_of(pod: Json) -> int | None:
    """The burst of a pod's annotation, None without one. Raises _Unreadable."""
    text = _words(pod, "annotations").get("volcano.sh/quota-burst-time", "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not 0 <= int(text) < 1 << 63:
        raise _Unreadable
    return int(text)


def _bursts(case: Json, pod: Json, burst: int) -> Json:
    def file(folder: str, name: str) -> str:
        return f"cpu/{folder}/cpu.cfs_{name}_us"

    def is_accepted(folder: str, value: int) -> bool:
        quota, period = (_integer(case["files"].get(file(folder, name))) for name in ("quota", "period"))
        if quota is None or period is None or file(folder, "burst") not in case["files"]:
            return False
        return quota == -1 or value <= quota < period * (case.get("ncpu") or 4)

    own_part = [one["cgroup_path"] for one in pod.get("containers") or () if is_accepted(one["cgroup_path"], burst)]
    total = burst * len(own_part)
    files = {file(folder, "burst"): str(burst) for folder in own_part}
    return {
        **files,
        **({file(pod["cgroup_path"], "burst"): str(total)} if is_accepted(pod["cgroup_path"], total) else {}),
    }


def _burst(case: Json, expected: Json) -> Iterator[Row]:
    yield from _of_nothing(case, expected)
    old, files, row, error = case.get("old_pod"), {}, _UNLIMITED, False
    for pod in _pods(case) or ():
        try:
            burst = _burst_of(pod)
        except _Unreadable:
            error, burst, row = True, None, _LAST_GOOD
            with suppress(_Unreadable):
                burst = _burst_of(old) if old is not None else None
        else:
            if burst is None and old is not None and _words(old, "annotations").get("volcano.sh/quota-burst-time"):
                burst, row = 0, _KEPT
        files |= _bursts(case, pod, burst) if burst is not None else {}
    yield row, {**({"error": error} if "error" in expected else {}), "files": _changed(case, files)}


# -- quotaTurbo -------------------------------------------------------------------------------------------------------


def _base(one: Json) -> int:
    return math.floor(round(one["cpu_limit"] * one["period"], 3))


def _fast(case: Json) -> dict[str, float]:
    """The fast fallback: what is above a limit falls, in proportion, and nothing else moves."""
    use, knobs = (case["utils"] or [0])[-1], case["config"]
    above = {one["id"]: (one, one["quota"] - _base(one)) for one in case["containers"] if one["quota"] > _base(one)}
    cpus = sum(more / one["period"] for one, more in above.values())
    if use < knobs["alarmWaterMark"] or cpus <= 0:
        return {}
    part = (knobs["alarmWaterMark"] - use) / 100 * case["ncpu"] / cpus
    return {name: part * more for name, (_, more) in above.items()}


def _fast_by_rubik(case: Json) -> dict[str, float]:
    use, knobs = (case["utils"] or [0])[-1], case["config"]
    excess = {one["id"]: one["quota"] / one["period"] - one["cpu_limit"] for one in case["containers"]}
    total = sum(excess.values())
    if use < knobs["alarmWaterMark"] or total <= 0:
        return {}
    less = (knobs["alarmWaterMark"] - use) / 100 * case["ncpu"]
    return {one["id"]: excess[one["id"]] / total * less * one["period"] for one in case["containers"]}


def _excess_row(case: Json) -> str:
    return _UNLIMITED if any(one["quota"] == -1 for one in case["containers"]) else _EXCESS


def _fast_fallback(case: Json, expected: Json) -> Iterator[Row]:
    deltas = _fast(case)
    stated = {"containers": {one["id"]: {"delta": deltas.get(one["id"], 0)} for one in case["containers"]}}
    yield _excess_row(case), stated


def _elevate(case: Json, expected: Json) -> Iterator[Row]:
    """Containers rise by what they lacked; a counter that went back lacks nothing."""
    use, knobs = (case["utils"] or [0.0])[-1], case["config"]
    needs = {}
    for one in case["containers"]:
        periods, spent = (
            one["nr_throttled"] - one["prev_nr_throttled"],
            one["throttled_time"] - one["prev_throttled_time"],
        )
        if periods > 0 and spent > 0 and one["period"] > 0:
            needs[one["id"]] = spent / 1000 / periods / one["period"]
    part = 0.0
    if needs and knobs["alarmWaterMark"] - use >= knobs["elevateLimit"]:
        part = min(sum(needs.values()), knobs["elevateLimit"] / 100 * case["ncpu"]) / sum(needs.values())
    containers = {one["id"]: {"delta": needs.get(one["id"], 0) * part * one["period"]} for one in case["containers"]}
    yield _BACK, {"containers": containers}


def _adjust(case: Json, expected: Json) -> Iterator[Row]:
    own_rows, rubiks, stated = _fast(case), _fast_by_rubik(case), {}
    for one in case["containers"]:
        was, name = expected["containers"][one["id"]], one["id"]
        delta = 0.0 if one["quota"] == -1 else was["delta"] - rubiks.get(name, 0.0) + own_rows.get(name, 0.0)
        least = max(_base(one), _LEAST_QUOTA)
        now = max(int(min(one["quota"] + delta, was["max_next"])), least)
        stated[name] = {**was, "delta": delta, "next_quota": now}
    small = all(one["quota"] >= _base(one) for one in case["containers"])
    yield (_SMALL if small else _excess_row(case)), {"containers": stated}


def _max_next(case: Json, expected: Json) -> Iterator[Row]:
    usages = case["usages"] or [{"t_ns": 0}]
    if usages[-1]["t_ns"] < usages[0]["t_ns"]:
        yield _BACK, {"max_next": 2 * case["cpu_limit"] * case["period"]}


def _node_util(case: Json, expected: Json) -> Iterator[Row]:
    for text in case["proc_stat"]:
        words = text.partition("\n")[0].split()
        if words[:1] != ["cpu"] or not all(word.isdecimal() for word in words[1:]):
            yield _TICKS, _ERROR


def _quota_file(folder: str) -> str:
    return f"cpu/{folder}/cpu.cfs_quota_us"


def _write(case: Json, expected: Json) -> Iterator[Row]:
    """The quotas of a container and of the cgroups above it, below that of all pods, change by the same."""
    before, after = case["quota"], case["next_quota"]
    if -1 in (before, after):
        yield _UNLIMITED, {"error": False, "files": {}, "quota_after": after}
        return
    names = [name for name in case["cgroup_path"].split("/") if name]
    first = 2 if names[0] in ("kubepods", "kubepods.slice") else 1
    files, row = {}, _TOP if names[0] == "kubepods.slice" else _ABOVE
    for depth in range(first, len(names) + 1):
        folder = "/".join(names[:depth])
        quota = _integer(case["files"].get(_quota_file(folder)))
        if quota is None:
            yield row, {"error": True, "files": {}, "quota_after": before}
            return
        now = quota + after - before
        if quota != -1 and (depth == len(names) or after > before or now >= _LEAST_QUOTA):
            files[_quota_file(folder)] = str(now)
    yield row, {"error": False, "files": _changed(case, files), "quota_after": after}


def _add(case: Json, expected: Json) -> Iterator[Row]:
    if _integer(case["files"].get(_quota_file(case["cgroup_path"]))) == -1:
        yield _UNLIMITED, {"error": True, "managed": False}


class _Node:
    """The ticks of a node, whose containers are left alone while one of their files cannot be read."""

    def __init__(self, case: Json) -> None:
        self.files: dict[str, str] = dict(case["files"])
        knobs = {key: value for key, value in (case.get("config") or {}).items() if key.endswith("WaterMark")}
        self.turbo = Turbo(case.get("ncpu") or 4, Knobs(**knobs))
        self.unread = self.failed = False

    def reading(self, path: str) -> Reading | None:
        """A reading of a container."""
        name = path.strip("/")
        texts = [self.files.get(f"cpu/{name}/cpu.cfs_{part}_us") for part in ("quota", "period")]
        texts += [self.files.get(f"cpuacct/{name}/cpuacct.usage")]
        quota, period, usage = map(_integer, texts)
        stat = self.files.get(f"cpu/{name}/cpu.stat")
        if quota is None or period is None or usage is None or stat is None:
            self.unread = True
            return None
        table = parse_flat_keyed(stat.strip())
        return Reading(quota, period, table.get("nr_throttled", 0), table.get("throttled_time", 0), usage)

    def lay(self, step: Json) -> None:
        """Lay out the files of a step."""
        for name, text in (step["files"] or {}).items():
            if text is None:
                self.files.pop(name, None)
            else:
                self.files[name] = text

    def tick(self, expected: Mapping[str, float], step: Json, now: int, *, decide: bool = True) -> tuple[float, Json]:
        """One tick; return the use of the node, and the files that it changed."""
        before, self.failed = dict(self.files), False
        for path in [path for path in self.turbo.managed if path not in expected]:
            quota, actual = self.turbo.remove(path), self.reading(path)
            if quota is not None and actual is not None and -1 not in (quota, actual.quota):
                self._write(path, actual.quota, quota)
        readings = {path: actual for path in expected if (actual := self.reading(path)) is not None}
        for path, actual in readings.items():
            if path not in self.turbo.managed and actual.period > 0 and actual.quota >= 0:
                self.turbo.add(path, expected[path], actual, now)
        use = 0.0
        if decide:
            times = parse_cpu_times(step["proc_stat"])
            use = self.turbo.observe(Ticks(times.busy + times.io_wait, times.busy + times.idle), now)
            for path, quota in self.turbo.decide(readings, now).items():
                self._write(path, readings[path].quota, quota)
        changed = {name: text for name, text in self.files.items() if before.get(name, "").strip() != text.strip()}
        return use, {name: text.strip() for name, text in changed.items()}

    def _write(self, path: str, before: int, after: int) -> None:
        if before == after:
            return
        for _, stated in _write({"cgroup_path": path, "quota": before, "next_quota": after, "files": self.files}, {}):
            self.files |= stated["files"]
            self.failed = self.failed or stated["error"]


def _tick(case: Json, expected: Json) -> Iterator[Row]:
    node, steps = _Node(case), []
    expected_value = {
        one["cgroup_path"].strip("/"): one["cpu_limit"] for one in case["add"] if 0 < one["cpu_limit"] < case["ncpu"]
    }
    node.tick(expected_value, {}, 0, decide=False)
    errors = [one["cgroup_path"].strip("/") not in node.turbo.managed for one in case["add"]]
    for step in case["ticks"]:
        node.lay(step)
        use, files = node.tick(expected_value, step, step["t_ns"] - case["add_t_ns"])
        steps.append({"error": node.failed, "util": use, "files": files})
    row = _UNREAD if node.unread else _UNLIMITED if "-1" in map(str.strip, case["files"].values()) else _FIRST
    yield row, {"add_error": errors, "ticks": steps}


def _service_tick(case: Json, expected: Json) -> Iterator[Row]:
    node, steps = _Node(case), []
    start = case["ticks"][0]["t_ns"]
    for step in case["ticks"]:
        node.lay(step)
        listed = step.get("containers", case["containers"])
        expected_value = {one["cgroup_path"].strip("/"): one["cpu_limit"] for one in listed}
        _, files = node.tick(expected_value, step, step["t_ns"] - start, decide="proc_stat" in step)
        steps.append({"files": files, "managed": sorted(node.turbo.managed)})
    yield _SCOPES, {"ticks": steps}


def _restore(case: Json, expected: Json) -> Iterator[Row]:
    yield from _of_nothing(case, expected)
    yield _ENDS, {"error": False, "files": {}}


# -- evictions --------------------------------------------------------------------------------------------------------


def _use(pod: Json, by: str, cpus: int) -> float | None:
    """The use of a pod: percent of the node, or MB; None if its counters do not tell."""
    stats = pod["stats"] or []
    if by == "memory":
        return stats[-1]["memory_bytes"] / 10**6 if stats else None
    if len(stats) < 2:
        return None
    spent, used = (stats[-1][key] - stats[-2][key] for key in ("t_ns", "cpu_usage_ns"))
    return 100 * used / spent / cpus if spent > 0 and used >= 0 else None


def _chosen(pods: list[Json], use: Mapping[str, float | None]) -> str | None:
    """The biggest user; of equal ones the newer, then by name."""
    known_entry = [pod for pod in pods if use[pod["name"]] is not None]
    newest = sorted(known_entry, key=lambda pod: (pod.get("namespace", ""), pod["name"]))
    newest.sort(key=lambda pod: pod.get("start_time") or "", reverse=True)
    newest.sort(key=lambda pod: -(use[pod["name"]] or 0.0))
    return newest[0]["name"] if newest else None


def _victim(case: Json, expected: Json) -> Iterator[Row]:
    use = {pod["name"]: _use(pod, case["by"], case["ncpu"]) for pod in case["pods"]}
    values = {name: -1 if value is None else value for name, value in use.items()}
    yield _COUNTERS, {"error": False, "values": values, "victim": _chosen(case["pods"], use)}


def _may_go(pod: Json) -> bool:
    return _offline(pod) and pod.get("namespace") != "kube-system"


def _monitor(case: Json, expected: Json) -> Iterator[Row]:
    """One pod for the first resource for which an online pod waits."""
    pods = [*case["other_pods"], *case["offline_pods"]]
    evict: list[str] = []
    for resource in case["config"]["resource"]:
        texts = [
            case["files"].get(f"cpuacct/{pod['cgroup_path']}/{resource}.pressure", "")
            for pod in pods
            if not _offline(pod)
        ]
        waits = [
            float(match[1]) for text in texts if (match := re.search(r"^some avg10=([\d.]+) ", text, re.MULTILINE))
        ]
        if any(wait > case["config"]["avg10threshold"] for wait in waits):
            by = "memory" if resource == "memory" else "cpu"
            possible = [{**pod, "stats": pod.get("stats")} for pod in pods if _may_go(pod)]
            use = {pod["name"]: _use(pod, by, case["ncpu"]) for pod in possible}
            evict = [name] if (name := _chosen(possible, use)) is not None else []
            break
    labels = any(_words(pod, "annotations").get(_PREEMPTIBLE) not in ("true", "false") for pod in pods)
    system = any(pod.get("namespace") == "kube-system" for pod in pods)
    yield (_PROTECTED if system else _LABELS if labels else _ONE), {"error": False, "evict": evict}


def _loaded(case: Json) -> list[str]:
    """The pod that goes by its load, if one has to go."""
    pods = [{**pod, **({"annotations": {_PREEMPTIBLE: "true"}} if pod.get("offline") else {})} for pod in case["pods"]]
    possible = [pod for pod in pods if _may_go(pod)]
    use = {pod["name"]: pod["load"] if pod["load"] >= 0 else None for pod in possible}
    name = _chosen(possible, use) if case["exceeded"] else None
    return [] if name is None else [name]


def _round(case: Json, expected: Json) -> Iterator[Row]:
    system = any(pod.get("namespace") == "kube-system" for pod in case["pods"])
    yield (_PROTECTED if system else _LABELS), {"error": False, "evict": _loaded(case)}


def _check(case: Json, expected: Json) -> Iterator[Row]:
    match = re.search(r"^MemTotal:\s*(\d+)", case["meminfo"], re.MULTILINE)
    if match is None or not int(match[1]):
        yield _TOTAL, _ERROR


def _eviction(namespace: str, name: str, uid: str) -> Json:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    return {"method": "POST", "path": f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "body": body}


def _request(case: Json, expected: Json) -> Iterator[Row]:
    requested = [
        (one, f"uid-{number}") for number, one in enumerate(case["targets"]) if one["namespace"] != "kube-system"
    ]
    requests = [_eviction(one["namespace"], one["name"], uid) for one, uid in requested]
    refused = any(one["name"] in (case["api_refuses"] or "") for one, _ in requested)
    row = _PROTECTED if len(requested) < len(case["targets"]) else _POLICY
    yield row, {"error": refused, "requests": requests}


def _round_request(case: Json, expected: Json) -> Iterator[Row]:
    spaces = {pod["name"]: pod["namespace"] for pod in case["pods"]}
    requests = [_eviction(spaces[name], name, f"uid-{name}") for name in _loaded(case)]
    yield (_PROTECTED if expected["error"] else _POLICY), {"error": False, "requests": requests}


# -- cpi --------------------------------------------------------------------------------------------------------------


def _series_add(case: Json, expected: Json) -> Iterator[Row]:
    if case["series"] is None:
        yield _NOTHING, {"error": False, "series": [case["add"]]}


def _normalized(case: Json, expected: Json) -> Iterator[Row]:
    if case["series"] and not math.fsum(value for _, value in case["series"]):
        yield _EMPTY, {"series": case["series"]}


def _expire(case: Json, expected: Json) -> Iterator[Row]:
    """Samples of a pod at work, that are not far from the usual, are folded into what is usual."""
    used, maximum = dict(case["cpu"] or ()), math.inf
    if case["count"] >= 60:
        maximum = case["mean"] + 2 * case["std"]
    values = [
        value for at, value in case["cpi"] or () if at < case["before"] and used.get(at, 0) >= 0.25 and value <= maximum
    ]
    count = case["count"] + len(values)
    if values:
        mean = (case["count"] * case["mean"] + sum(values)) / count
        squares = case["count"] * (case["std"] ** 2 + (case["mean"] - mean) ** 2) + sum(
            (one - mean) ** 2 for one in values
        )
        yield _FOLDED, {**expected, "count": count, "mean": mean, "std": math.sqrt(squares / count)}
    else:
        yield _FOLDED, {**expected, "count": count, "mean": case["mean"], "std": case["std"]}


def _outlier(case: Json, expected: Json) -> Iterator[Row]:
    if expected.get("panic"):
        yield _EMPTY, {"outlier": False}


def _antagonist(case: Json, expected: Json) -> Iterator[Row]:
    if expected.get("panic") or expected.get("score") == "NaN":
        yield _EMPTY, {"antagonist": case["metric"] < 0, "score": 0.0}


def _limit_fails(case: Json, expected: Json) -> Iterator[Row]:
    """Quotas that cannot be read limit nobody; of those that were set, the ones that are still there go back."""
    pod = case["pod"]
    names = [_quota_file(folder) for folder in _folders(pod)]

    def removed_files(part: str) -> set[str]:
        return {_quota_file("/".join(filter(None, (pod["cgroup_path"], name)))) for name in case[part] or ()}

    early, late = removed_files("files_removed_before_limit"), removed_files("files_removed_before_restore")
    limited = not early
    remaining = {name: case["files"][name].strip() for name in names if name not in early | late}
    moved = {name: "10000" for name in names if case["files"][name].strip() != "10000"}
    yield (
        _LOCKS,
        {
            "add_error": False,
            "lock_held_after_limit": False,
            "lock_held_after_restore": False,
            "limit_error": not limited,
            "limited": limited,
            "files_limited": moved if limited else {},
            "limited_after_restore": False,
            "files_restored": {name: text for name, text in remaining.items() if limited},
        },
    )


def _cpi_add(case: Json, expected: Json) -> Iterator[Row]:
    if _words(case["pod"], "annotations").get("volcano.sh/cpi") == "offline":
        yield _NO_QUOTA, {**expected, "error": False, "offline": True}


def _cpi_start(case: Json, expected: Json) -> Iterator[Row]:
    if case["pods"] is None:
        yield _NOTHING, {"error": not case["perf_supported"]}


def _cpi_stop(case: Json, expected: Json) -> Iterator[Row]:
    yield _RESTORED, {"files": {}, "panic": False}


def _collect(case: Json, expected: Json) -> Iterator[Row]:
    if not case.get("instructions"):
        yield _NONE, _ERROR


def _cpi_round(case: Json, expected: Json) -> Iterator[Row]:
    if expected.get("panic"):
        yield _EMPTY, {key: value for key, value in expected.items() if key != "panic"}


_STAGES: Final[Mapping[tuple[str, str], Callable[[Json, Json], Iterator[Row]]]] = {
    ("frame", "config_load"): _config_load,
    ("frame", "services"): _services,
    ("frame", "classify"): _classify,
    ("frame", "pod_path"): _pod_path,
    ("frame", "container_path"): _container_path,
    ("frame", "nri_container_path"): _nri_path,
    ("frame", "join_container"): _join,
    ("frame", "nri_pod"): _nri_pod,
    ("frame", "nri_events"): _nri_events,
    ("frame", "dispatch"): _dispatch,
    ("frame", "setup"): _setup,
    ("preemption", "add"): _preemption,
    ("preemption", "update"): _preemption,
    ("preemption", "start"): _preemption,
    ("dynCache", "mask_bits"): _mask_bits,
    ("dynCache", "mask"): _mask,
    ("dynCache", "start"): _cache_start,
    ("dynCache", "sync"): _cache_sync,
    ("ioLimit", "parse"): _parse,
    ("ioLimit", "reset_text"): _reset_text,
    ("ioLimit", "device"): _device,
    ("ioLimit", "add"): _limit,
    ("ioLimit", "update"): _limit,
    ("ioLimit", "start"): _limit,
    ("ioCost", "device"): _cost_device,
    ("ioCost", "support"): _cost_support,
    ("ioCost", "config"): _cost_config,
    ("ioCost", "stop"): _cost_stop,
    ("ioCost", "add"): _cost_pods,
    ("ioCost", "update"): _cost_pods,
    ("ioCost", "start"): _cost_pods,
    ("dynMemory", "config_meminfo"): _config_meminfo,
    ("dynMemory", "add"): _memory_pods,
    ("dynMemory", "update"): _memory_pods,
    ("dynMemory", "start"): _memory_pods,
    ("quotaBurst", "add"): _burst,
    ("quotaBurst", "update"): _burst,
    ("quotaBurst", "start"): _burst,
    ("quotaTurbo", "fast_fallback"): _fast_fallback,
    ("quotaTurbo", "elevate"): _elevate,
    ("quotaTurbo", "adjust"): _adjust,
    ("quotaTurbo", "max_next"): _max_next,
    ("quotaTurbo", "node_util"): _node_util,
    ("quotaTurbo", "write"): _write,
    ("quotaTurbo", "add"): _add,
    ("quotaTurbo", "tick"): _tick,
    ("quotaTurbo", "service_tick"): _service_tick,
    ("quotaTurbo", "start"): _restore,
    ("quotaTurbo", "stop"): _restore,
    ("psi", "start"): _of_nothing,
    ("psi", "victim"): _victim,
    ("psi", "monitor"): _monitor,
    ("cpuevict", "round"): _round,
    ("memoryevict", "round"): _round,
    ("memoryevict", "check"): _check,
    ("eviction", "request"): _request,
    ("eviction", "round_request"): _round_request,
    ("cpi", "series_add"): _series_add,
    ("cpi", "series_normalize"): _normalized,
    ("cpi", "expire"): _expire,
    ("cpi", "outlier"): _outlier,
    ("cpi", "antagonist"): _antagonist,
    ("cpi", "limit"): _limit_fails,
    ("cpi", "add"): _cpi_add,
    ("cpi", "start"): _cpi_start,
    ("cpi", "stop"): _cpi_stop,
    ("cpi", "collect_cpi"): _collect,
    ("cpi", "round"): _cpi_round,
}
