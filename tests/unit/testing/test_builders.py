"""Pods and containers for tests."""

from __future__ import annotations

import re

import pytest

import nri
from nri.testing import make_container, make_pod


def test_builders_set_resources_in_their_messages() -> None:
    pod = make_pod(name="web", labels={"a": "b"})
    container = make_container(pod=pod, env={"A": "1"}, cpu_shares=5, cpus="0-1", memory_limit=7, args=["sh"])
    assert container.pod_sandbox_id == pod.id
    assert nri.env_of(container) == {"A": "1"}
    resources = container.linux.resources
    assert (resources.cpu.shares.value, resources.cpu.cpus, resources.memory.limit.value) == (5, "0-1", 7)
    assert list(container.args) == ["sh"]
    assert make_pod().id != make_pod().id


def test_ids_and_uids_are_numbered_and_can_be_given() -> None:
    first, second = make_pod(), make_pod(id="mine")
    assert second.id == "mine" and first.uid != second.uid
    assert make_container().id != make_container().id
    assert make_container(id="mine", pod_sandbox_id="p").pod_sandbox_id == "p"


@pytest.mark.parametrize(
    ("function", "key", "words"),
    [
        (
            make_container,
            "memory",
            "make_container() got an unexpected keyword argument 'memory'; did you mean \"memory_l",
        ),
        (make_container, "cpu_share", 'did you mean "cpu_shares"?'),
        (make_container, "annotation", 'did you mean "annotations"?'),
        (make_pod, "nodename", "make_pod() got an unexpected keyword argument 'nodename'; "),
        (make_pod, "runtimehandler", 'did you mean "runtime_handler"?'),
    ],
)
def test_an_unknown_argument_is_an_error_with_the_nearest_name(function, key: str, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        function(**{key: "x"})
