"""CPU classes and interrupts on a file tree: writing, errors and restoring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.host import Root
from nri.placement import masks
from nri.placement.checkpoint import Checkpoint
from nri.placement.machine import Machine
from nri.placement.topology_aware.options import Options
from nri.placement.tuner import Tuner
from nri.placement.tuning import IrqAffinity, Tuning
from nri.plugins.balloons.plugin import BalloonsPlugin
from nri.testing import FakeRuntime
from tests.support.host_trees import write_files
from tests.support.placement import container, guest, topology_aware, write_machine
from tests.unit.placement.placing import ask, create, pod, started, stop

CLASSES: dict[str, Any] = {
    "cpuClasses": [{"name": "low", "maxFreq": "1GHz", "uncoreMinFreq": "2GHz"}, {"name": "fast", "maxFreq": "3GHz"}],
    "sharedPoolCPUClass": "low",
    "defaultExclusiveCPUClass": "fast",
}
MOST = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_max_freq"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    files = {MOST.format(cpu): "2000000\n" for cpu in range(16)}
    files |= {f"proc/irq/{number}/smp_affinity_list": "0-15\n" for number in (24, 25)}
    files["proc/interrupts"] = "   CPU0\n 24:  1  PCI nvme0q0\n 25:  1  PCI eth0\n 26:  1  timer\n"
    return write_files(write_machine(tmp_path, guest()), files)


@pytest.fixture
def runtime() -> Iterator[FakeRuntime]:
    with FakeRuntime(real_time=False) as fake_runtime:
        yield fake_runtime


def max_frequencies(root: Root, *cpus: int) -> list[int]:
    return [int(root.read("/" + MOST.format(cpu))) for cpu in cpus]


def interrupt(root: Root, number: int) -> str:
    return root.read(f"/proc/irq/{number}/smp_affinity_list").strip()


def test_cpus_follow_their_classes_and_missing_settings_are_logged_once(root: Root) -> None:
    text: list[str] = []
    tuner, policy = Tuner(root, text.append, {}), topology_aware(**CLASSES)
    tuner.apply(policy.tuning(), policy.options, policy.machine)
    assert max_frequencies(root, 0, 4, 15) == [1_000_000] * 3
    lacks = "package_00_die_00, package_01_die_00: min_freq_khz unsupported: /sys/devices/system/cpu/"
    assert text == tuner.problems == [f"{lacks}intel_uncore_frequency/*/min_freq_khz does not exist"]
    policy.create(container("a", 2000))
    tuner.apply(policy.tuning(), policy.options, policy.machine)
    assert max_frequencies(root, 3, 4, 5, 6) == [1_000_000, 3_000_000, 3_000_000, 1_000_000]
    policy.release("a")
    tuner.apply(policy.tuning(), policy.options, policy.machine)
    assert max_frequencies(root, 4, 5) == [1_000_000] * 2
    assert len(text) == 1


def test_many_missing_files_are_one_message(tmp_path: Path) -> None:
    text: list[str] = []
    policy = topology_aware(**CLASSES)
    Tuner(Root(tmp_path), text.append, {}).apply(policy.tuning(), policy.options, policy.machine)
    assert text[0] == (
        "cpu0, cpu1, cpu2 and 13 more files: scaling_max_freq unsupported: "
        "/sys/devices/system/cpu/*/cpufreq/scaling_max_freq does not exist"
    )


def test_an_interrupt_is_moved_and_restored_also_after_a_restart(root: Root) -> None:
    machine, options = Machine.of(guest()), topology_aware().options
    text: list[str] = []
    irq_affinities = Tuning({}, [IrqAffinity("a", masks.parse("4-5"), ("*nvme*",), ("*",))])
    remaining: list[dict[str, str]] = []
    tuner = Tuner(root, text.append, {}, lambda: remaining.append(tuner.first))
    tuner.apply(Tuning(), options, machine)
    assert not remaining, "no CPU is requested"
    tuner.apply(irq_affinities, options, machine)
    assert (interrupt(root, 24), interrupt(root, 25)) == ("4-5", "0-3,6-15")
    assert tuner.first == {"24": "0-15", "25": "0-15"}
    tuner.apply(irq_affinities, options, machine)
    assert remaining == [tuner.first], "nothing has changed"
    second = Tuner(root, text.append, tuner.first)
    second.apply(Tuning(), options, machine)
    assert (interrupt(root, 24), interrupt(root, 25), second.first) == ("0-15", "0-15", {})


def test_interrupts_of_a_later_device_are_moved(root: Root) -> None:
    machine, options = Machine.of(guest()), topology_aware().options
    tuning = Tuning({}, [IrqAffinity("a", masks.parse("4-5"), ("*nvme*",), ("*",))])
    tuner = Tuner(root, lambda _: None, {})

    def later(lines: str) -> None:
        write_files(Path(root.path), {"proc/interrupts": "   CPU0\n 24:  1  PCI nvme0q0\n" + lines})
        for _ in range(60):
            tuner.apply(tuning, options, machine)

    later("")
    write_files(Path(root.path), {"proc/irq/30/smp_affinity_list": "0-7\n"})
    later(" 30:  1  PCI nvme1q0\n")
    assert interrupt(root, 30) == "4-5" and tuner.first == {"24": "0-15", "30": "0-7"}
    later(" 30:  1  PCI nvme1q0, usb1\n")
    assert interrupt(root, 30) == "4-5" and tuner.first["30"] == "0-7"
    later("")
    assert tuner.first == {"24": "0-15"}


def test_only_controllable_interrupts_are_moved(root: Root) -> None:
    options = Options(**{**vars(topology_aware().options), "controllableInterrupts": ["*eth*"]})
    Tuner(root, print, {}).apply(Tuning({}, [IrqAffinity("a", 0b10, ("*",))]), options, Machine.of(guest()))
    assert (interrupt(root, 24), interrupt(root, 25)) == ("0-15", "1")


def test_the_plugin_applies_classes_after_each_decision(runtime: FakeRuntime, root: Root, tmp_path: Path) -> None:
    plugin = started(runtime, tmp_path, **CLASSES)
    plugin.tune()
    assert max_frequencies(root, 4, 5) == [1_000_000] * 2
    container_message = create(runtime, pod("own", irq_affinity="{claim: ['*nvme*']}"), ask("own", 2000)).container
    plugin.tune()
    assert max_frequencies(root, 4, 5) == [3_000_000] * 2
    assert interrupt(root, 24) == "4-5"
    state, _ = Checkpoint(str(tmp_path / "state"), "topology-aware").read()
    assert state is not None
    assert state.interrupts == {"24": "0-15"}
    stop(runtime, container_message)
    plugin.tune()
    assert (max_frequencies(root, 4, 5), interrupt(root, 24)) == ([1_000_000] * 2, "0-15")


def test_the_original_cpus_of_an_interrupt_survive_a_crash(
    runtime: FakeRuntime, root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = started(runtime, tmp_path)
    container_message = create(runtime, pod("own", irq_affinity="{claim: ['*nvme*']}"), ask("own", 2000)).container
    write = Root.write

    def last(*words: Any) -> None:
        write(*words)
        raise SystemExit

    with monkeypatch.context() as context:
        context.setattr(Root, "write", last)
        with pytest.raises(SystemExit):
            plugin.tune()
    assert interrupt(root, 24) == "4-5"
    runtime.disconnect()
    plugin = started(runtime, tmp_path)
    stop(runtime, container_message)
    with monkeypatch.context() as context:  # it is not forgotten if it cannot be given back now
        context.setattr(Root, "write", lambda *_: (_ for _ in ()).throw(PermissionError(1, "not now")))
        plugin.tune()
    assert interrupt(root, 24) == "4-5"
    runtime.disconnect()
    started(runtime, tmp_path).tune()
    assert interrupt(root, 24) == "0-15"


def test_a_container_that_claims_fixed_interrupts_is_refused(runtime: FakeRuntime, root: Root, tmp_path: Path) -> None:
    started(runtime, tmp_path, controllableInterrupts=["*nvme*"])
    create(runtime, pod("one", irq_affinity="{mask: ['*']}"), ask("one", 1000))
    with pytest.raises(
        nri.PluginError, match=r"irq-affinity.*: '\*eth\*' is interrupt 25 \(.*\), which must not be moved"
    ):
        create(runtime, pod("other", irq_affinity="{claim: ['*eth*']}"), ask("other", 1000))


def test_an_unconnected_plugin_applies_no_class(root: Root) -> None:
    from nri.plugins.topology_aware.plugin import TopologyAwarePlugin

    TopologyAwarePlugin().tune()
    assert max_frequencies(root, 0) == [2_000_000]


def test_a_fixed_interrupt_that_a_balloon_type_claims_is_logged(
    root: Root, runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    types = [{"name": "net", "irqClaim": ["PCI eth0"]}, {"name": "disk", "irqClaim": ["PCI nvme*"]}]
    started(runtime, tmp_path, BalloonsPlugin(), balloonTypes=types, controllableInterrupts=["PCI nvme*"])
    (messages,) = [record.getMessage() for record in caplog.records if "irqClaim" in record.getMessage()]
    assert messages.startswith(
        "balloonTypes net: irqClaim: 'PCI eth0' is interrupt 25 (PCI eth0), which must not be moved"
    )
