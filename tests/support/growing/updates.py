"""Updates and evictions of any number, merged and in whole events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.merge import StopMerge, UpdateMerge
from nri.api import messages as m
from nri.api.fields import Kind, Row
from tests.support.growing import big
from tests.support.growing.big import POD, Case, names


def update_event(*replies: m.UpdateContainerResponse, known_names: Any = None) -> Callable[[], object]:
    """One UpdateContainer, each reply shown to the next plugin."""
    encoded = [reply.SerializeToString() for reply in replies]

    def run() -> None:
        merge = UpdateMerge(m.UpdateContainerRequest(container=big.container()), containers=known_names)
        for n, reply in enumerate(encoded):
            merge.apply(f"{n:02}-plugin", m.UpdateContainerResponse.FromString(reply))
            merge.resources.SerializeToString()
        merge.reply().SerializeToString()
        merge.owners()

    return run


def updates_of_one(row: Row) -> Case:
    """Many updates of the requested container, an entry each."""

    def case(n: int) -> Callable[[], object]:
        reply = m.UpdateContainerResponse()
        for key in names("k", n):
            big.fill(reply.update.add(container_id="made"), row, [key])
        return update_event(reply)

    return case


def updates_of_other(row: Row) -> Case:
    """Many updates of one other container, an entry each, all of them twice."""

    def case(n: int) -> Callable[[], object]:
        reply = m.StopContainerResponse()
        for key in (*names("k", n), *names("k", n)):
            big.fill(reply.update.add(container_id="other"), row, [key])

        def run() -> None:
            merge = StopMerge(m.StopContainerRequest(container=big.container()))
            merge.apply("00-plugin", reply)
            merge.reply()

        return run

    return case


def update_of_many_keys(row: Row) -> Case:
    """One update of the requested container with many entries, by two plugins."""

    def case(n: int) -> Callable[[], object]:
        replies = [m.UpdateContainerResponse() for _ in "ab"]
        for prefix, reply in zip("ab", replies, strict=True):
            big.fill(reply.update.add(container_id="made"), row, names(prefix, n))
        return update_event(*replies)

    return case


def updates_of_all(n: int) -> Callable[[], object]:
    """One update for each of many containers."""
    return update_event(m.UpdateContainerResponse(update=big.updates(n)))


def conflicts_ignored(n: int) -> Callable[[], object]:
    """Updates in conflict with an earlier plugin's, each of which may fail."""
    first, second = (m.UpdateContainerResponse(update=big.updates(n)) for _ in "ab")
    for entry in second.update:
        entry.ignore_failure = True
    return update_event(first, second)


def evictions(n: int) -> Callable[[], object]:
    """Many evictions."""
    reply = m.UpdateContainerResponse()
    for one in names("c", n):
        reply.evict.add(container_id=one, reason="why")
    return update_event(reply)


class _Answers:
    """A built-in plugin with given answers."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def create_container(self, pod: Any, container: Any) -> Any:
        return self.answers.get("create")

    def stop_container(self, pod: Any, container: Any) -> Any:
        return self.answers.get("stop")

    def synchronize(self, pods: Any, containers: Any) -> Any:
        return self.answers.get("synchronize")


def node(containers: int, plugin: _Answers, **more: Any) -> Adaptation:
    """A runtime with so many containers, c0 and so on."""
    state = [POD], [m.Container(id=f"c{n}", pod_sandbox_id="pod") for n in range(containers)]
    adaptation = Adaptation(
        "bench", "1", synchronize=lambda: state, update=lambda updates: [], plugin_path="/nonexistent",
        builtin=[BuiltinPlugin("10", "p", plugin)], disable_connections=True, policy_path=None, **more,
    )  # fmt: skip
    adaptation.start()
    return adaptation


def rebalance(n: int) -> Callable[[], object]:
    """A creation in which all other containers are updated, committed; and one that is aborted."""
    runtime = node(n, _Answers(create=big.updates(n)))

    def run() -> None:
        runtime.create_container(POD, big.container(container_id="made")).commit()
        runtime.create_container(POD, big.container(container_id="other")).abort()
        runtime.stop_container(POD, big.container(container_id="c0"))

    return run


def absent(n: int) -> Callable[[], object]:
    """A reply that updates containers that are not there."""
    runtime = node(1, _Answers(stop=big.updates(n, "none")))
    return lambda: runtime.stop_container(POD, big.container(container_id="c0"))


def joining(n: int) -> Callable[[], object]:
    """A plugin that joins and asks for an update of all containers."""
    return lambda: node(n, _Answers(synchronize=big.updates(n)))


_RESOURCES = {path: row for path, row in big.rows("linux.resources.").items() if row.kind is not Kind.LIST}

CASES: dict[str, Case] = {
    **{f"update: {path}, one update": update_of_many_keys(row) for path, row in _RESOURCES.items()},
    **{f"update: {path}, an update each": updates_of_one(row) for path, row in _RESOURCES.items()},
    **{f"update: {path}, of another": updates_of_other(row) for path, row in _RESOURCES.items()},
    "update: all containers": updates_of_all,
    "update: conflicts ignored": conflicts_ignored,
    "update: evictions": evictions,
    "event: rebalance": rebalance,
    "event: absent containers": absent,
    "join: update all containers": joining,
}
