"""Entries by their path: what is dropped and added, in which order, at which cost."""

from __future__ import annotations

import time

from nri.adaptation.merge.entries import read
from nri.adaptation.merge.fields import TREE
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import Owners, adjust, devices, mounts
from nri.proxy.adjust.paths import ByPath

_MANY = 16_000


def test_the_order_stays_and_what_is_added_comes_last() -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path=path, host_path="old") for path in "abab"])
    found = ByPath(config.mounts)
    assert "a" in found
    found.drop("a")
    assert "a" not in found
    found.add(pb.Mount(container_path="a", host_path="new"))
    found.drop("none")
    found.done()
    assert [(each.container_path, each.host_path) for each in config.mounts] == [
        ("b", "old"), ("b", "old"), ("a", "new"),
    ]  # fmt: skip


def test_thousands_of_devices_and_mounts_cost_no_more_than_their_number() -> None:
    wanted = m.ContainerAdjustment(
        mounts=[m.Mount(destination=f"/m{each}", source="/", type="bind") for each in range(_MANY)]
    )
    wanted.linux.devices.extend(
        m.LinuxDevice(path=f"/dev/x{each}", type="c", major=1, minor=3) for each in range(_MANY)
    )
    found = {each.row.path: each for each in read(wanted, TREE)}
    config, before = pb.ContainerConfig(), time.process_time()
    assert devices.say(config, found["linux.devices"]) == mounts.say(config, found["mounts"]) == []
    assert len(config.devices) == len(config.mounts) == _MANY
    assert time.process_time() - before < 8


def test_thousands_of_entries_that_cannot_be_said_have_their_plugin_at_no_more_than_their_number() -> None:
    wanted = m.ContainerAdjustment(
        mounts=[m.Mount(destination=f"/m{each}", source="/", type="tmpfs") for each in range(_MANY)]
    )
    owners = m.OwningPlugins()
    for each in range(_MANY):
        owners.owners["c"].compound[m.Field.Value("Mounts")].owners[f"/m{each}"] = "10-a"
    before = time.process_time()
    unsaid = adjust(pb.ContainerConfig(), wanted, Owners(owners, "c"))
    assert {each.plugin for each in unsaid} == {"10-a"}
    assert len(unsaid) == _MANY
    assert time.process_time() - before < 8
