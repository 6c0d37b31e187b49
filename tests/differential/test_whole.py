"""The same cases one layer up: the bytes that remote plugins are sent, and the whole adaptation in reference mode."""

from collections.abc import Iterator
from typing import Any

import pytest

from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.merge import CreateMerge, UpdateMerge
from nri.adaptation.peers.event_request import CreateRequest, UpdateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import NriError
from nri.rules import Rules
from nri.testing.conformance import _compare, _copy, _parse, _parse_all, _Run
from tests.differential.__main__ import cases
from tests.differential.compare import TIMES
from tests.differential.generate import Case
from tests.differential.oracle import Expect, Oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as process:
        yield process


@pytest.fixture(scope="module")
def answered(oracle: Oracle) -> list[tuple[Case, Expect]]:
    """Cases whose answer does not depend on chance: where the order of a map matters, there are several."""
    some = [case for case in cases(seed=11, count=2000) if not any("error" in plugin for plugin in case["plugins"])]
    return [(case, expect) for case, expect in oracle.stream(some) if "panic" not in expect]


def different(oracle: Oracle, case: Case, run: _Run, error: str | None) -> str:
    """The diff to the reference's answer; "" if any of its answers is ours."""
    diff = "\n".join(_compare(run, error))
    if not diff:
        return ""
    for run.expect in oracle.answers(case, TIMES):
        if not list(_compare(run, error)):
            return ""
    return f"case {case}\n{diff}"


def test_the_bytes_that_plugins_are_sent_are_those_of_the_reference(
    oracle: Oracle, answered: list[tuple[Case, Expect]]
) -> None:
    for case, expect in answered:
        if case["op"] == "stop":
            continue
        run = _Run({**case, "expect": expect})
        pod, container = _parse(case.get("pod"), m.PodSandbox()), _parse(case.get("container"), m.Container())
        state, question, reply = _asked(case, pod, container)

        def sent(state: Any = state, question: Any = question) -> Any:
            question.refresh()
            if isinstance(state, CreateMerge):
                return m.CreateContainerRequest.FromString(question.encoded()).container
            return m.UpdateContainerRequest.FromString(question.encoded()).linux_resources

        error = run.fold(state, sent, reply)
        run.outcome = {}
        if diff := different(oracle, case, run, error):
            pytest.fail(diff, pytrace=False)


def _asked(case: Case, pod: Any, container: Any) -> tuple[Any, Any, Any]:
    if case["op"] == "create":
        created = CreateMerge(m.CreateContainerRequest(pod=pod, container=container), Rules.REFERENCE)
        return (
            created,
            CreateRequest(BY_METHOD["create_container"], pod, container, created),
            m.CreateContainerResponse,
        )
    resources = _parse(case.get("resources"), m.LinuxResources())
    request = m.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources)
    updated = UpdateMerge(request, Rules.REFERENCE)
    return updated, UpdateRequest(BY_METHOD["update_container"], pod, container, updated), m.UpdateContainerResponse


class _Scripted:
    """A plugin that notes what it sees and answers what its script says."""

    def __init__(self, script: Case, seen: list[Any]) -> None:
        self.adjust = _parse(script["adjust"], m.ContainerAdjustment()) if script.get("adjust") is not None else None
        self.updates = _parse_all(script.get("update"), m.ContainerUpdate)
        self.seen = seen

    def create_container(self, _pod: Any, container: Any) -> Any:
        self.seen.append(_copy(container))
        return self.adjust, self.updates

    def update_container(self, _pod: Any, _container: Any, resources: Any) -> Any:
        self.seen.append(_copy(resources))
        return self.updates

    def stop_container(self, _pod: Any, _container: Any) -> Any:
        return self.updates


def _whole(run: _Run) -> str | None:
    """Put the case through an adaptation; the error's text, or None."""
    case = run.case
    pod, container = _parse(case.get("pod"), m.PodSandbox()), _parse(case.get("container"), m.Container())
    plugins = [BuiltinPlugin(each["index"], each["name"], _Scripted(each, run.seen)) for each in case["plugins"]]
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
            run.outcome = {"adjust": [created.adjust], "update": created.updates, "owners": [created.owners]}
        elif case["op"] == "update":
            resources = _parse(case.get("resources"), m.LinuxResources())
            updated = adaptation.update_container(pod, container, resources)
            run.outcome = {"update": list(updated.message.update)}
        else:
            run.outcome = {"update": adaptation.stop_container(pod, container).updates}
    except NriError as error:
        return str(error)
    finally:
        adaptation.stop()
    return None


def test_the_whole_adaptation_answers_as_the_reference(oracle: Oracle, answered: list[tuple[Case, Expect]]) -> None:
    tried = 0
    for case, expect in answered[:1000]:
        labels = [(each["index"], each["name"]) for each in case["plugins"]]
        if len(set(labels)) < len(labels) or not all(name.isidentifier() and name.isascii() for _, name in labels):
            continue  # names that plugins may not have
        run = _Run({**case, "expect": expect})
        error = _whole(run)
        tried += 1
        if diff := different(oracle, case, run, error):
            pytest.fail(diff, pytrace=False)
    assert tried > 400
