"""A thread goes to another network namespace and ends there; nobody else leaves."""

from __future__ import annotations

import os

import pytest

from nri.plugins.network_device_injector.namespace import OWN, enter, same
from tests.support.networks import in_own_network, pod_network


@in_own_network
def test_what_is_done_there_is_done_there_and_the_caller_stays_where_it_was() -> None:
    before = os.readlink(OWN)
    with pod_network() as pod:
        assert enter(pod.path, lambda: os.readlink(OWN)) == os.readlink(pod.path) != before
        assert os.readlink(OWN) == before
        assert not same(pod.path, OWN)
    assert same(OWN, OWN)


def test_a_file_that_is_no_network_namespace_is_an_error(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        enter(f"{tmp_path}/file", lambda: None)
    with pytest.raises(FileNotFoundError):
        enter(f"{tmp_path}/none", lambda: None)


@in_own_network
def test_what_fails_there_fails_here() -> None:
    def fail() -> None:
        raise OSError(5, "input/output error")

    with pod_network() as pod, pytest.raises(OSError, match="input/output"):
        enter(pod.path, fail)
