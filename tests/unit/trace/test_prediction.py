"""Predicted collisions equal those of a real merge, also for plugins that were recorded separately."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import nri
from nri.adaptation.merge import CreateMerge
from nri.api import messages as m
from nri.errors import ConflictError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.history import Event, Step, Trace
from nri.trace.prediction import CollisionFinder
from nri.trace.recorder import Recorder

REQUEST = m.CreateContainerRequest(pod=make_pod(name="web", namespace="shop"), container=make_container(id="c1"))
OTHER = nri.Update("other").set_cpu_shares(4).message

#: Replies of all kinds: fields with an owner, keys, removals, takings over, fields without an owner, updates.
REPLIES = [
    nri.Adjustment().add_env("A", "1"),
    nri.Adjustment().add_env("A", "2").add_env("B", "2"),
    nri.Adjustment().remove_env("A").add_env("A", "3"),
    nri.Adjustment().remove_env("B"),
    nri.Adjustment().set_args(["a"]),
    nri.Adjustment().update_args(["b"]),
    nri.Adjustment().set_cpu_shares(2).set_memory_limit(1 << 30),
    nri.Adjustment().set_memory_limit(1 << 31),
    nri.Adjustment().set_oom_score_adj(5),
    nri.Adjustment().remove_device("/dev/a").add_annotation("k", "v"),
    nri.Adjustment().remove_annotation("k").add_annotation("k", "w"),
]


def reply_of(number: int, *, update: bool) -> m.CreateContainerResponse:
    return m.CreateContainerResponse(adjust=REPLIES[number].message, update=[OTHER] if update else [])


def apart(replies: list[m.CreateContainerResponse], subject: str = "c1") -> list[Event]:
    """One event for each plugin, as from separate recordings."""
    events = []
    for number, reply in enumerate(replies):
        event = Event("CreateContainer", 1, 1, 0)
        event.request = REQUEST.SerializeToString()
        step = Step(f"{number:02}-p", "CreateContainer", event.request, 0)
        step.reply = reply.SerializeToString()
        event.steps.append(step)
        events.append(event)
    return events


def foresee(events: list[Event], max_containers: int = 10) -> CollisionFinder:
    foresight = CollisionFinder(max_containers)
    for event in events:
        foresight.take(event)
    return foresight


@given(st.lists(st.tuples(st.integers(0, len(REPLIES) - 1), st.booleans()), max_size=4))
def test_predicted_collisions_equal_those_of_a_merge(drawn: list[tuple[int, bool]]) -> None:
    replies = [reply_of(number, update=update) for number, update in drawn]
    foretold = {
        (collision.first, collision.second, collision.field, collision.key)
        for collision in foresee(apart(replies)).collisions()
    }
    merge, refused = CreateMerge(REQUEST), set()
    for number, reply in enumerate(replies):
        try:
            merge.apply(f"{number:02}-p", reply)
        except ConflictError as error:
            conflict = error.conflict
            refused.add((conflict.holder, conflict.claimant, conflict.field_name, conflict.key))
            break  # a refused reply claims no fields, but a prediction for all plugins cannot know that
    assert refused <= foretold
    assert bool(refused) == bool(foretold)


class Sets(nri.Plugin):
    """Sets one variable."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("LEVEL", self.name)


def record(folder: Path, pods: int, *indices: str) -> Path:
    """Record plugins at the same containers each time."""
    with Recorder(folder) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        for index in indices:
            runtime.add(Sets(), index)
        for number in range(pods):
            pod = make_pod(id=f"pod{number}", name=f"p{number}", namespace="shop")
            try:
                runtime.create_container(pod, make_container(id=f"id{number}", name="main")).commit()
            except nri.errors.NriError:
                continue
    return folder


def test_collisions_are_predicted_from_separate_redacted_recordings(tmp_path: Path) -> None:
    folders = [record(tmp_path / name, 3, index) for name, index in (("a", "10"), ("b", "20"))]
    (collision,) = foresee([event for folder in folders for event in Trace(folder).events()]).collisions()
    assert collision[:5] == ("Env", "LEVEL", "CreateContainer", "10-sets", "20-sets")
    assert (collision.containers, collision.happened) == (("shop/p0/main", "shop/p1/main", "shop/p2/main"), 0)
    assert foresee(list(Trace(folders[0]).events())).collisions() == []


def test_an_actual_collision_is_marked(tmp_path: Path) -> None:
    (collision,) = foresee(list(Trace(record(tmp_path, 2, "10", "20")).events())).collisions()
    assert (len(collision.containers), collision.happened) == (2, 2)


def test_containers_above_the_limit_are_counted() -> None:
    events = apart([reply_of(0, update=False), reply_of(0, update=False)])
    other = apart([reply_of(0, update=False)])[0]
    other.request = m.CreateContainerRequest(container=make_container(id="c2")).SerializeToString()
    foresight = foresee([*events, other], max_containers=1)
    assert (len(foresight.collisions()), foresight.left_out) == (1, 1)


def test_events_without_an_answer_or_a_container_are_skipped() -> None:
    without = Event("RunPodSandbox", 1, 1, 0)
    unread = apart([reply_of(0, update=False)])[0]
    unread.steps[0].reply = b"\xff"
    silent = apart([reply_of(0, update=False)])[0]
    silent.steps[0].reply = None
    assert foresee([without, unread, silent]).collisions() == []


def test_kept_answers_are_bounded_in_bytes() -> None:
    reply = m.CreateContainerResponse(adjust=nri.Adjustment().add_env("A", "x" * 1000).message)
    foresight = CollisionFinder(max_bytes=8000)
    for event in apart([reply] * 5):
        foresight.take(event)
    assert foresight.left_out == 0, "answers that are equal are kept once"
    for number in range(5):
        reply.adjust.env[0].key = f"K{number}"
        foresight.take(apart([reply])[0])
    assert foresight.left_out > 0
    assert len(foresight.collisions()) == 4


def declared(foresight: CollisionFinder, **plugins: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The collisions, with plugins that declare: ``p10=("env",)``."""
    for name, sets in plugins.items():
        foresight.declare(f"{name[1:]}-{name}", sets)
    return {
        (
            collision.first,
            collision.second,
            f"{collision.field} {collision.key}".rstrip(),
            collision.event,
            *collision.containers,
        )
        for collision in foresight.collisions()
        if collision.declared
    }


def test_declarations_collide_where_they_overlap() -> None:
    declarations = declared(
        CollisionFinder(),
        p20=("env.LEVEL", "linux.resources.cpu.shares"),
        p10=("env.*", "CPUShares", "hooks"),
        p30=("env.OTHER", "linux.resources", "hooks"),
    )
    assert declarations == {
        ("10-p10", "20-p20", "Env LEVEL", ""),
        ("10-p10", "20-p20", "CPUShares", ""),
        ("10-p10", "30-p30", "Env OTHER", ""),
        ("10-p10", "30-p30", "CPUShares", ""),
        ("20-p20", "30-p30", "CPUShares", ""),
    }


def test_a_declaration_collides_with_what_was_recorded(tmp_path: Path) -> None:
    foresight = foresee(list(Trace(record(tmp_path, 2, "10")).events()))
    assert declared(foresight, p05=("env.*",), p20=("env.LEVEL",), p30=("env.OTHER", "args")) == {
        ("05-p05", "10-sets", "Env LEVEL", "CreateContainer", "shop/p0/main", "shop/p1/main"),
        ("10-sets", "20-p20", "Env LEVEL", "CreateContainer", "shop/p0/main", "shop/p1/main"),
        ("05-p05", "20-p20", "Env LEVEL", ""),
        ("05-p05", "30-p30", "Env OTHER", ""),
    }


def test_a_recorded_removal_prevents_a_collision() -> None:
    events = apart([reply_of(0, update=False), reply_of(2, update=False)])[1:]  # 01-p removes A and sets it
    assert declared(foresee(events), p00=("env.A",)) == set()
    assert len(declared(foresee(events), p50=("env.A",))) == 1


def test_a_recording_of_a_plugin_takes_precedence_over_its_declaration(tmp_path: Path) -> None:
    foresight = foresee(list(Trace(record(tmp_path, 1, "10")).events()))
    foresight.declare("10-sets", ["args"])
    foresight.declare("20-other", ["args"])
    assert [(collision.field, collision.containers) for collision in foresight.collisions()] == [("Args", ())]
