"""Restorations as updates for runtimes, with default values for fields that were unset before."""

from __future__ import annotations

import nri
from nri.adaptation import FieldOrder, Restoration, SequenceNumbers
from nri.adaptation.containers.restoration import as_updates

HAD = nri.Update("c").set_cpu_shares(100).set_memory_limit(1000).message.linux.resources


def test_an_update_has_only_undone_fields_and_defaults_for_unset_ones() -> None:
    update = nri.Update.of(Restoration("c", HAD, ("cpu.shares",), ("cpu.quota", "pids", "cpu.cpus")).as_update())
    assert (update.cpu_shares, update.memory_limit, update.cpu_quota, update.pids_limit) == (100, None, -1, -1)


def test_every_update_has_the_sequence_numbers_of_its_container() -> None:
    arguments = [Restoration("c", HAD, ("cpu.shares",), (), SequenceNumbers(0, {"cpu.shares": 2}, {"cpu.shares": 8}))]
    updates = as_updates(arguments)
    order = FieldOrder(HAD, SequenceNumbers(8))
    expected = order.newest(updates[0].linux.resources, updates.numbers(updates[0]))
    assert expected.cpu.shares.value == 100
    assert (
        FieldOrder(HAD, SequenceNumbers(9)).newest(expected, updates.numbers(updates[0])).ByteSize()
        < expected.ByteSize()
    )
