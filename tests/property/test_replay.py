"""A thousand random histories of containers are recorded and replayed with equal bytes.

Histories drawn together share a runtime, each with a separate pod, so that a thousand take a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nri
from nri.errors import NriError
from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace.recorder import Recorder


class Sets(nri.Plugin):
    """Sets a variable and shares, refuses containers called bad, changes what is updated."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "bad":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("LEVEL", "old").set_cpu_shares(512)

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.Update:
        return nri.Update(container).set_cpu_shares(3)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update]:
        return []


class Labels(nri.Plugin):
    """Adds an annotation."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_annotation("example.com/pod", pod.name)


def ask(runtime: FakeRuntime, asking: nri.Plugin, container: nri.Container, number: int) -> None:
    """The first plugin asks for an update by itself, perhaps of what is not there."""
    asking.runtime.update(nri.Update(container).set_memory_limit((number + 8) << 20)).result()


EVENTS: dict[str, Callable[..., object]] = {
    "create": lambda runtime, pod, container, _: runtime.create_container(pod, container),
    "update": lambda runtime, pod, container, n: runtime.update_container(
        pod, container, nri.Update(container).set_cpu_shares(n + 2)
    ),
    "start": lambda runtime, pod, container, _: runtime.start_container(pod, container),
    "post": lambda runtime, pod, container, _: runtime.post_start_container(pod, container),
    "stop": lambda runtime, pod, container, _: runtime.stop_container(pod, container),
    "sandbox": lambda runtime, pod, _, __: runtime.run_pod_sandbox(pod),
}
NAMES = ("main", "bad", "", "side")
HISTORIES = st.lists(
    st.lists(st.tuples(st.sampled_from(["ask", *EVENTS]), st.integers(0, 3)), max_size=12), min_size=20, max_size=20
)


@settings(max_examples=50)
@given(histories=HISTORIES, plugins=st.lists(st.sampled_from([Sets, Labels]), min_size=1, max_size=3))
def test_a_thousand_histories_are_replayed_with_the_same_result(
    tmp_path_factory: pytest.TempPathFactory,
    histories: list[list[tuple[str, int]]],
    plugins: list[type[nri.Plugin]],
) -> None:
    folder = tmp_path_factory.mktemp("history")
    created = [kind() for kind in plugins]
    happened = 0
    with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        for number, one in enumerate(created, 1):
            runtime.add(one, f"{number}0", f"p{number}")
        for place, history in enumerate(histories):
            pod = make_pod(name=f"pod-{place}")
            containers = [make_container(pod=pod, name=name) for name in NAMES]
            for event, n in history:
                happened += 1
                with suppress(NriError):
                    if event == "ask":
                        ask(runtime, created[0], containers[n], n)
                    else:
                        EVENTS[event](runtime, pod, containers[n], n)
    with Replay(folder) as replay:
        for number, kind in enumerate(plugins, 1):
            replay.add(kind(), f"{number}0", f"p{number}")
        outcomes = list(replay.outcomes())
    assert len(outcomes) == happened
    assert [outcome for outcome in outcomes if outcome.differences or outcome.left_out] == []
