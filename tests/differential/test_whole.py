"""The same cases for the whole adaptation in reference mode, and for the bytes that remote plugins receive.

The outcome is given to `nri.conformance.cases` as the recorded outcome of the merge alone. The other tests in this
folder compare the merge with the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from google.protobuf import json_format

from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.merge import CreateMerge, UpdateMerge
from nri.adaptation.peers.event_request import CreateRequest, UpdateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.conformance.cases import run_merge_case
from nri.errors import NriError
from nri.rules import Rules
from tests.differential.__main__ import cases
from tests.differential.generate import Case

CASES = [case for case in cases(seed=11, count=2000) if not any("error" in plugin for plugin in case["plugins"])]


def read(data: Any, message: Any) -> Any:
    """A message of a case; one that is not there is an empty one."""
    return json_format.ParseDict(data or {}, message)


def written(message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


Outcome = Iterable[tuple[str, Any]]


def same(case: Case, run: Callable[[Case, list[Any]], Outcome]) -> None:
    """Fail if the merge alone has another outcome than `run`, or shows plugins something else than `run` noted."""
    calls: list[Any] = []
    try:
        expect = {**dict(run(case, calls)), "seen": calls}
    except NriError as error:
        expect = {"error": error.whole_text, "seen": calls}
    if failure := run_merge_case({**case, "expect": expect}):
        pytest.fail(f"case {case}\n{failure}", pytrace=False)


def test_plugins_receive_the_merged_request() -> None:
    for case in CASES:
        if case["op"] != "stop":
            same(case, _create if case["op"] == "create" else _update)


def _create(case: Case, calls: list[Any]) -> Outcome:
    pod, container = read(case.get("pod"), m.PodSandbox()), read(case.get("container"), m.Container())
    state = CreateMerge(m.CreateContainerRequest(pod=pod, container=container), Rules.REFERENCE)
    question = CreateRequest(BY_METHOD["create_container"], pod, container, state)
    for plugin in _in_order(case):
        question.refresh()
        calls.append(written(m.CreateContainerRequest.FromString(question.encoded()).container))
        state.apply(f"{plugin['index']}-{plugin['name']}", _answer(plugin, m.CreateContainerResponse()))
    reply = state.reply()
    return [("adjust", written(reply.adjust)), ("update", [*map(written, reply.update)])]


def _update(case: Case, calls: list[Any]) -> Outcome:
    pod, container = read(case.get("pod"), m.PodSandbox()), read(case.get("container"), m.Container())
    resources = read(case.get("resources"), m.LinuxResources())
    request = m.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources)
    state = UpdateMerge(request, Rules.REFERENCE)
    question = UpdateRequest(BY_METHOD["update_container"], pod, container, state)
    for plugin in _in_order(case):
        question.refresh()
        calls.append(written(m.UpdateContainerRequest.FromString(question.encoded()).linux_resources))
        state.apply(f"{plugin['index']}-{plugin['name']}", _answer(plugin, m.UpdateContainerResponse()))
    return [("update", [*map(written, state.reply().update)])]


def _in_order(case: Case) -> list[dict[str, Any]]:
    """The plugins of a case; those of one index answer in the order of the list."""
    return sorted(case["plugins"], key=lambda plugin: plugin["index"])


def _answer(plugin: dict[str, Any], answer: Any) -> Any:
    fields_by_name = answer.DESCRIPTOR.fields_by_name
    return read({key: value for key, value in plugin.items() if key in fields_by_name and value is not None}, answer)


class _Scripted:
    """A plugin that notes its calls and gives the answers of its script."""

    def __init__(self, script: Case, calls: list[Any]) -> None:
        self.adjust = read(script["adjust"], m.ContainerAdjustment()) if script.get("adjust") is not None else None
        self.updates = [read(entry, m.ContainerUpdate()) for entry in script.get("update") or ()]
        self.seen = calls

    def create_container(self, _pod: Any, container: Any) -> Any:
        self.seen.append(written(container))
        return self.adjust, self.updates

    def update_container(self, _pod: Any, _container: Any, resources: Any) -> Any:
        self.seen.append(written(resources))
        return self.updates

    def stop_container(self, _pod: Any, _container: Any) -> Any:
        return self.updates


def _run_adaptation(case: Case, calls: list[Any]) -> Outcome:
    """Run the case through an adaptation. Raises NriError."""
    pod, container = read(case.get("pod"), m.PodSandbox()), read(case.get("container"), m.Container())
    plugins = [BuiltinPlugin(entry["index"], entry["name"], _Scripted(entry, calls)) for entry in case["plugins"]]
    adaptation = Adaptation(
        "differential",
        "v1",
        synchronize=lambda: ([], []),
        update=lambda _updates: None,
        plugin_path="/nonexistent",
        disable_connections=True,
        policy_path=None,
        builtin=plugins,
        compat="reference",
    )
    adaptation.start()
    try:
        if case["op"] == "create":
            created = adaptation.create_container(pod, container)
            updates = created.updates
            more = [("adjust", written(created.adjust)), ("owners", written(created.owners))]
        elif case["op"] == "update":
            resources = read(case.get("resources"), m.LinuxResources())
            updates, more = adaptation.update_container(pod, container, resources).message.update, []
        else:
            updates, more = adaptation.stop_container(pod, container).updates, []
    finally:
        adaptation.stop()
    return [("update", [*map(written, updates)]), *more]


def test_the_adaptation_answers_like_the_merge() -> None:
    tried = 0
    for case in CASES[:1000]:
        labels = [(entry["index"], entry["name"]) for entry in case["plugins"]]
        if len(set(labels)) < len(labels) or not all(name.isidentifier() and name.isascii() for _, name in labels):
            continue  # names that plugins may not have
        same(case, _run_adaptation)
        tried += 1
    assert tried > 400
