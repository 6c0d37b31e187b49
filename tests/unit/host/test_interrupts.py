"""Interrupts: descriptions and CPU affinity."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import Outcome, Root
from nri.host.interrupts import affinity_of, read_interrupts, set_affinity
from tests.support.host_trees import write_files

INTERRUPTS = """\
           CPU0       CPU1
  0:         44          0   IO-APIC   2-edge      timer
 24:          1          7   PCI-MSI 512000-edge      nvme0q0
 25:          1          7
NMI:          2          3   Non-maskable interrupts
"""


def test_numbered_interrupts_are_read_with_descriptions(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"proc/interrupts": INTERRUPTS})
    assert read_interrupts(root) == {0: "IO-APIC   2-edge      timer", 24: "PCI-MSI 512000-edge      nvme0q0", 25: ""}
    assert read_interrupts(Root(tmp_path / "nowhere")) == {}


def test_the_cpus_of_an_interrupt_are_read_and_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_files(tmp_path, {"proc/irq/24/smp_affinity_list": "0-1\n"})
    assert (affinity_of(root, 24), affinity_of(root, 25)) == ("0-1", None)
    assert set_affinity(root, 24, "1").outcome is Outcome.APPLIED
    assert set_affinity(root, 24, "1").outcome is Outcome.UNCHANGED
    assert set_affinity(root, 25, "1").outcome is Outcome.UNSUPPORTED
    write = Root.write
    monkeypatch.setattr(Root, "write", lambda self, path, text: write(self, path, {"0-1": "0,1"}.get(text, "1")))
    assert set_affinity(root, 24, "0-1").outcome is Outcome.APPLIED
    assert set_affinity(root, 24, "0").outcome is Outcome.CLAMPED
