"""Compare this package's merge and spec generator, in reference mode, with recorded results of NRI's Go code.

A merge case has the request, the answer of each plugin, and the result of the Go code (release 0.12.5). A `spec` case
has an OCI spec, an adjustment, and the resulting spec; specs are compared in canonical form.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.api import messages as m
from nri.config.json_lines import read_json_lines
from nri.errors import NriError
from nri.oci import Generator, MountPoint, MountTable, canonical
from nri.rules import Rules

#: A case, as in the file.
Case = dict[str, Any]

#: The operations of cases.
_OPS = ("create", "update", "stop", "spec")
#: The mounts of the host, against which propagation is checked: one private mount, as when the cases were recorded.
_HOST = MountTable([MountPoint("/")])


@dataclass(frozen=True, slots=True)
class Failure:
    """A case whose result differs. `diff` is a unified diff of expected and actual JSON."""

    case: str
    op: str
    diff: str

    def __str__(self) -> str:
        return f"case {self.case} ({self.op}) differs:\n{self.diff}"


def read_cases(path: str | Path) -> Iterator[Case]:
    """Yield the merge and spec cases of a file of JSON lines, plain or compressed with xz. Raises ConfigError."""
    return read_json_lines(path, _case_mistake)


def _case_mistake(case: Any) -> str:
    """The reason why a line is not a valid case, or "". Messages are checked when the case runs."""
    if not isinstance(case, dict) or not {"id", "op", "expect"} <= case.keys():
        return "id, op and expect are required"
    if case["op"] not in _OPS:
        return f"unknown op {json.dumps(case['op'])}: use one of {', '.join(_OPS)}"
    expect, plugins = case["expect"], case.get("plugins") or []
    if not isinstance(expect, dict):
        return "expect is not an object"
    for key in ("seen", "update"):
        if not isinstance(expect.get(key) or [], list):
            return f"expect.{key} is not a list"
    if not isinstance(plugins, list) or not all(isinstance(plugin, dict) for plugin in plugins):
        return "plugins is not a list of objects"
    if not all(isinstance(plugin.get("index", ""), str) for plugin in plugins):
        return "a plugin's index is not text"
    return ""


def _parse(data: Any, message: Any) -> Any:
    # null is a missing message. As an element of a list, it can only be an empty message on the wire.
    try:
        json_format.ParseDict({} if data is None else data, message)
    except (TypeError, ValueError, SystemError) as error:  # protobuf raises these for a number in place of a message
        raise json_format.ParseError(f"{message.DESCRIPTOR.name}: {error}") from error
    return message


def _parse_all(data: Iterable[Any] | None, kind: Callable[[], Any]) -> list[Any]:
    return [_parse(entry, kind()) for entry in data or ()]


def _as_json(messages: Iterable[Message]) -> list[Any]:
    return [json_format.MessageToDict(message, preserving_proto_field_name=True) for message in messages]


class _Run:
    """The run of one case: the messages that plugins saw, and the result."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.expect: dict[str, Any] = case["expect"]
        # Sorting is stable: plugins with the same index answer in the order of the list.
        self.plugins = sorted(case.get("plugins") or (), key=lambda plugin: plugin["index"])
        self.seen: list[Any] = []
        self.outcome: dict[str, list[Any]] = {}

    def fold(self, state: Any, see: Callable[[], Message] | None, reply: Callable[[], Any]) -> str | None:
        """Apply the answers of all plugins. Returns the text of the first error, or None."""
        for plugin in self.plugins:
            if see is not None:
                self.seen.append(_copy(see()))
            if plugin.get("error") is not None:
                return str(plugin["error"])
            answer = reply()
            fields = answer.DESCRIPTOR.fields_by_name
            _parse({key: value for key, value in plugin.items() if key in fields and value is not None}, answer)
            try:
                state.apply(f"{plugin['index']}-{plugin['name']}", answer)
            except NriError as error:
                return error.whole_text
        return None


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _create(run: _Run) -> str | None:
    request = m.CreateContainerRequest()
    _parse(run.case.get("pod"), request.pod)
    _parse(run.case.get("container"), request.container)
    state = CreateMerge(request, Rules.REFERENCE)
    error = run.fold(state, lambda: state.container, m.CreateContainerResponse)
    reply = state.reply()
    run.outcome = {"adjust": [reply.adjust], "update": list(reply.update), "owners": [state.owners()]}
    return error


def _update(run: _Run) -> str | None:
    request = m.UpdateContainerRequest()
    _parse(run.case.get("pod"), request.pod)
    _parse(run.case.get("container"), request.container)
    if run.case.get("resources") is not None:
        _parse(run.case["resources"], request.linux_resources)
    state = UpdateMerge(request, Rules.REFERENCE)
    error = run.fold(state, lambda: state.resources, m.UpdateContainerResponse)
    run.outcome = {"update": list(state.reply().update), "owners": [state.owners()]}
    return error


def _stop(run: _Run) -> str | None:
    request = m.StopContainerRequest()
    _parse(run.case.get("container"), request.container)
    state = StopMerge(request, Rules.REFERENCE)
    error = run.fold(state, None, m.StopContainerResponse)
    run.outcome = {"update": list(state.reply().update), "owners": [state.owners()]}
    return error


_RUNNERS: dict[str, Callable[[_Run], str | None]] = {"create": _create, "update": _update, "stop": _stop}
#: The operations that are merges.
MERGE_OPS = frozenset(_RUNNERS)
_SEEN_TYPES: dict[str, Callable[[], Any]] = {"create": m.Container, "update": m.LinuxResources}
_PART_TYPES: dict[str, Callable[[], Any]] = {
    "adjust": m.ContainerAdjustment,
    "update": m.ContainerUpdate,
    "owners": m.OwningPlugins,
}


def run_merge_case(case: Case) -> Failure | None:
    """Run a create, update or stop case in reference mode. Returns None if the result is the recorded result."""
    try:
        run = _Run(case)
        error = _RUNNERS[case["op"]](run)
        differences = list(_compare(run, error))
    except (json_format.ParseError, UnicodeEncodeError) as problem:
        differences = [f"the case cannot be read: {str(problem).splitlines()[0]}"]
    except KeyError as missing:
        differences = [f"the case cannot be read: it has no {missing}"]
    return Failure(str(case["id"]), case["op"], "\n".join(differences)) if differences else None


def _compare(run: _Run, error: str | None) -> Iterator[str]:
    expect, op = run.expect, run.case["op"]
    expected_error = expect.get("error")
    if expected_error != error:
        yield _diff("error", [expected_error], [error])
    if op in _SEEN_TYPES:
        yield from _compare_part("seen", _parse_all(expect.get("seen"), _SEEN_TYPES[op]), run.seen)
    if error is not None or expected_error is not None:
        return
    for part, kind in _PART_TYPES.items():
        if part not in run.outcome or (part == "owners" and part not in expect):
            continue
        recorded = expect.get(part)
        expected = _parse_all(recorded if part == "update" else [recorded], kind)
        yield from _compare_part(part, expected, run.outcome[part])


def _compare_part(part: str, expected: list[Any], actual: list[Any]) -> Iterator[str]:
    for message in (*expected, *actual):
        _settle_order(message)
    if expected != actual:
        yield _diff(part, _as_json(expected), _as_json(actual))


def _settle_order(message: Any) -> None:
    """Sort lists that the Go code returns in the random order of a Go map."""
    if isinstance(message, m.Container):
        message.linux.namespaces.sort(key=lambda namespace: (namespace.type, namespace.path))
    elif isinstance(message, m.ContainerAdjustment):
        mounts = list(message.mounts)
        for start in range(len(mounts)):
            end = start
            while end < len(mounts) and mounts[end].destination.startswith("-"):
                end += 1
            mounts[start:end] = sorted(mounts[start:end], key=lambda mount: mount.SerializeToString(deterministic=True))
        settled = m.ContainerAdjustment(mounts=mounts)
        message.ClearField("mounts")
        message.mounts.MergeFrom(settled.mounts)


def run_spec_case(case: Case, host: MountTable = _HOST) -> Failure | None:
    """Run a spec case in reference mode. Returns None if the result is the recorded result."""
    diff = _compare_spec(case, host)
    return Failure(str(case["id"]), "spec", diff) if diff else None


def _compare_spec(case: Case, host: MountTable) -> str:
    try:
        adjustment = json_format.ParseDict(case.get("adjust") or {}, m.ContainerAdjustment())
    except (json_format.ParseError, UnicodeEncodeError) as problem:
        return f"the case cannot be read: {str(problem).splitlines()[0]}"
    if not isinstance(case.get("spec"), dict):
        return "the case cannot be read: it has no 'spec'"
    original_spec = copy.deepcopy(case["spec"])
    try:
        actual = _spec_outcome(spec=Generator(case["spec"], compat="reference", mounts=host).adjust(adjustment))
    except NriError as error:
        actual = {"error": error.whole_text}
    if case["spec"] != original_spec:
        return "the generator changed its input spec"
    expected = _spec_outcome(**case["expect"])
    return "" if actual == expected else _diff("spec", expected, actual)


def _spec_outcome(spec: Any = None, error: Any = None, **_: Any) -> dict[str, Any]:
    return {"error": error} if error is not None else {"spec": canonical(spec) if isinstance(spec, dict) else spec}


def _diff(part: str, expected: Any, actual: Any) -> str:
    expected_lines, actual_lines = (
        json.dumps(side, indent=1, sort_keys=True).split("\n") for side in (expected, actual)
    )
    return "\n".join(
        difflib.unified_diff(expected_lines, actual_lines, f"{part}: recorded", f"{part}: actual", lineterm="")
    )
