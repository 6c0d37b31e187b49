"""Mounts in the CRI's words, and what of them cannot be said."""

from __future__ import annotations

import pytest

from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fields import TREE
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import mounts


def entry(*wanted: m.Mount) -> Entry:
    (found,) = (each for each in read(m.ContainerAdjustment(mounts=wanted), TREE) if each.row.path == "mounts")
    return found


def mount(destination: str, *options: str, kind: str = "bind") -> m.Mount:
    return m.Mount(destination=destination, source="/host", type=kind, options=options)


@pytest.mark.parametrize(
    ("options", "readonly", "recursive", "propagation"),
    [
        ((), False, False, pb.PROPAGATION_PRIVATE),
        (("ro", "rslave"), True, False, pb.PROPAGATION_HOST_TO_CONTAINER),
        (("rro", "rshared"), True, True, pb.PROPAGATION_BIDIRECTIONAL),
        (("ro", "rw"), False, False, pb.PROPAGATION_PRIVATE),
    ],
)
def test_a_bind_mount_has_its_options(
    options: tuple[str, ...], readonly: bool, recursive: bool, propagation: int
) -> None:
    config = pb.ContainerConfig()
    assert mounts.say(config, entry(mount("/a", *options))) == []
    (made,) = config.mounts
    assert (made.container_path, made.host_path) == ("/a", "/host")
    assert (made.readonly, made.recursive_read_only, made.propagation) == (readonly, recursive, propagation)


def test_what_is_no_bind_mount_and_options_without_a_word_come_back() -> None:
    config = pb.ContainerConfig()
    rest = mounts.say(config, entry(mount("/a", kind="tmpfs"), mount("/b", "nosuid", "ro")))
    assert [(key, value) for key, value, _ in rest] == [("/a", "type tmpfs"), ("/b", "nosuid")]
    assert [each.container_path for each in config.mounts] == ["/b"]


def test_one_that_is_there_is_replaced_or_removed() -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/a", host_path="/old"), pb.Mount(container_path="/b")])
    assert mounts.say(config, entry(m.Mount(destination="-/a"), mount("/a"), m.Mount(destination="-/b"))) == []
    assert [(each.container_path, each.host_path) for each in config.mounts] == [("/a", "/host")]


def test_one_that_the_runtime_adds_cannot_be_removed() -> None:
    ((key, value, reason),) = mounts.say(pb.ContainerConfig(), entry(m.Mount(destination="-/proc")))
    assert (key, value) == ("/proc", "removed")
    assert "runtimes add it" in reason
