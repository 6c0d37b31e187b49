"""Outcomes in the form in which they are compared: what the records have of rubik's insides is left out.

Texts of files are compared without the white space at their ends, and only where a file has another text than before.
Files that keep a row for each device are compared by their rows, as a kernel has them after all writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.rubik_cases.world import Json, rows

__all__ = ["comparable", "device_rows"]


def comparable(case: Json, *, own_rows: bool = False) -> Json:
    """Return the outcome of a case as it is compared; `ours` is one that a stage returned."""
    outcome = dict(case["expect"])
    before = case["input"].get("files") or {}
    for key in ("files", "files_limited"):
        if key in outcome:
            outcome[key] = _stripped(outcome[key], before)
    change = _STAGES.get((case["service"], case["stage"])) or _STAGES.get((case["service"], ""))
    return change(outcome, before, own_rows) if change is not None else outcome


def _stripped(files: Json, before: Json) -> Json:
    """Files with another text than before; what rubik wrote as it was before is no difference."""
    return {name: text.strip() for name, text in files.items() if text.strip() != (before.get(name) or "\0").strip()}


def device_rows(before: str, texts: list[str]) -> dict[str, str]:
    """The rows of a file after texts of one or several lines were written to it."""
    now = rows(before)
    for text in texts:
        for line in text.splitlines():
            device, _, value = line.strip().partition(" ")
            now[device] = value
    return {device: value for device, value in now.items() if value not in ("", "0") and "enable=0" not in value}


def _without(*keys: str) -> Callable[[Json, Json, bool], Json]:
    """Leave out what only the original has."""

    def change(outcome: Json, before: Json, own_rows: bool) -> Json:
        return {key: value for key, value in outcome.items() if key not in keys}

    return change


def _events(outcome: Json, before: Json, own_rows: bool) -> Json:
    """The pods that are known: rounds look at all of them, and no event is published to a service."""
    return {"steps": [{"pods": step["pods"]} for step in outcome["steps"]]} if "steps" in outcome else outcome


def _ticks(outcome: Json, before: Json, own_rows: bool) -> Json:
    """Ticks, whose files are stripped."""
    for step in outcome["ticks"]:
        step["files"] = {name: text.strip() for name, text in step["files"].items()}
    return outcome


def _limits(outcome: Json, before: Json, own_rows: bool) -> Json:
    """Limits of I/O in the end; rubik only logs a row that has no effect."""
    if own_rows:
        return outcome
    writes = outcome.get("writes")
    if writes is None:
        writes = {name: [text] for name, text in outcome["files"].items()}
    texts = {name: [before.get(name) or "", writes.get(name, [])] for name in {*before, *writes}}
    actual = {name: device_rows(text, written) for name, (text, written) in texts.items() if ".throttle." in name}
    return {"error": outcome["error"], "limits": {name: actual[name] for name in actual if actual[name]}}


def _cost(outcome: Json, before: Json, own_rows: bool) -> Json:
    """Models of disks in the end."""
    if own_rows:
        return outcome
    names = {*before, *outcome["writes"]}
    actual = {name: device_rows(before.get(name) or "", outcome["writes"].get(name, [])) for name in names}
    return {"error": outcome["error"], "rows": {name: actual[name] for name in actual if actual[name]}}


def _path(outcome: Json, before: Json, own_rows: bool) -> Json:
    """A path, which the records have with the slash of its source."""
    return {**outcome, **({"path": outcome["path"].strip("/")} if "path" in outcome else {})}


def _extracted(outcome: Json, before: Json, own_rows: bool) -> Json:
    """A pod; the CPU that its containers request is nothing that a service reads."""
    if not outcome["running"]:
        return {"running": False}  # nobody sees it
    for container in outcome["pod"]["containers"]:
        container["requests"].pop("cpu", None)
    return outcome


def _nri_pod(outcome: Json, before: Json, own_rows: bool) -> Json:
    named = (
        {**outcome, "cgroup_path": outcome.get("cgroup_path", "").strip("/")} if "cgroup_path" in outcome else outcome
    )
    return {key: value for key, value in named.items() if key != "start_time"}


_STAGES: Final[dict[tuple[str, str], Any]] = {
    ("frame", "nri_events"): _events,
    ("frame", "api_events"): _events,
    ("frame", "nri_container_path"): _path,
    ("frame", "pod_extract"): _extracted,
    ("frame", "nri_pod"): _nri_pod,
    ("ioLimit", "add"): _limits,
    ("ioLimit", "update"): _limits,
    ("ioLimit", "start"): _limits,
    ("ioCost", "config"): _cost,
    ("ioCost", "stop"): _cost,
    ("quotaTurbo", "tick"): _ticks,
    ("quotaTurbo", "service_tick"): _ticks,
    # Whether the use of pods was looked at: here it is in every round, to have two readings.
    # At the start rubik logs all that is wrong.
    ("quotaBurst", "start"): _without("error"),
    ("cpuevict", "round"): _without("asked"),
    ("memoryevict", "round"): _without("asked"),
}
