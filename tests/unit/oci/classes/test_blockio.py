"""Block-I/O classes: configuration, matching devices and the resulting spec."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.config import Source
from nri.errors import ConfigError, SpecError
from nri.oci import BlockIoClasses

EXAMPLE = """\
Classes:
  LowPrio:
    - Weight: 80
    - Devices: [/dev/sd*, /dev/vda]
      ThrottleReadBps: 50M
      ThrottleWriteBps: 10M
      ThrottleReadIOPS: 10k
      ThrottleWriteIOPS: "5k"
      Weight: 50
    - Devices: [/dev/ssd]
      ThrottleReadBps: 1Gi
  HighPrio:
    - Weight: "400"
  Nothing: []
"""
DISKS = {"/dev/sda": (8, 0), "/dev/sdb": (8, 16), "/dev/ssd": (8, 16), "/dev/vda": (253, 0)}
FOUND = {
    "/dev/sd*": ["/dev/sda", "/dev/sdb", "/dev/sdx", "/dev/null"],
    "/dev/vda": ["/dev/vda"],
    "/dev/ssd": ["/dev/ssd"],
}


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], BlockIoClasses]:
    """Make classes on a machine with some disks; no test machine is sure to have any."""
    real = os.stat

    def look(path, *arguments, **named):
        if path in DISKS:
            return SimpleNamespace(st_mode=stat.S_IFBLK | 0o660, st_rdev=os.makedev(*DISKS[path]))
        return real(path, *arguments, **named)

    monkeypatch.setattr("nri.oci.classes.blockio.os.stat", look)
    return lambda text: BlockIoClasses(Source("b.yaml", text), find=FOUND.__getitem__)


def test_the_last_setting_of_a_device_counts(disks: Callable[[str], BlockIoClasses]) -> None:
    classes = disks(EXAMPLE)
    assert classes.names == ["HighPrio", "LowPrio", "Nothing"]
    assert classes.resolve("HighPrio") == {"weight": 400}
    assert classes.resolve("Nothing") == {}

    def rates(*values: int) -> list[dict[str, int]]:
        numbers = [(8, 0), (8, 16), (253, 0)]
        return [{"major": a, "minor": b, "rate": value} for (a, b), value in zip(numbers, values, strict=True)]

    assert classes.resolve("LowPrio") == {
        "weight": 80,
        "weightDevice": [{"major": a, "minor": b, "weight": 50} for a, b in [(8, 0), (8, 16), (253, 0)]],
        "throttleReadBpsDevice": rates(50_000_000, 1 << 30, 50_000_000),
        "throttleWriteBpsDevice": rates(10_000_000, 10_000_000, 10_000_000),
        "throttleReadIOPSDevice": rates(10_000, 10_000, 10_000),
        "throttleWriteIOPSDevice": rates(5_000, 5_000, 5_000),
    }


def test_an_unknown_class_is_an_error_with_the_known_classes() -> None:
    with pytest.raises(SpecError, match='no block-I/O class "x"; known: a'):
        BlockIoClasses(Source("b", "Classes: {a: []}")).resolve("x")
    with pytest.raises(SpecError, match='no block-I/O class "x"; known: none'):
        BlockIoClasses(Source("b", "")).resolve("x")


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("Classes: {a: [{Weight: 9}]}", "Classes.a[0].Weight", "9 must be between 10 and 1000"),
        ("Classes: {a: [{Weight: 1001}]}", "Classes.a[0].Weight", "1001 must be between 10 and 1000"),
        ("Classes: {a: [{Weight: many}]}", "Classes.a[0].Weight", '"many" is not a quantity'),
        ("Classes: {a: [{ThrottleReadBps: 5}]}", "Classes.a[0].ThrottleReadBps", "a throttle requires Devices"),
        (
            "Classes: {a: [{Devices: [/x], ThrottleReadBps: -1}]}",
            "Classes.a[0].ThrottleReadBps",
            "-1 must not be negative",
        ),
        ("Classes: {a: [{Wight: 5}]}", "Classes.a[0].Wight", "unknown key"),
    ],
)
def test_an_invalid_configuration_is_an_error_with_line_and_key(text: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockIoClasses(Source("b.yaml", text))
    assert (caught.value.source, caught.value.key) == ("b.yaml:1", key)
    assert reason in caught.value.reason


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        BlockIoClasses(Source("b.yaml", "Classes: {a: [{Weight: 1}], b: [{Weight: 2}]}"))
    assert [error.key for error in caught.value.others] == ["Classes.b[0].Weight"]


def test_empty_values_are_ignored() -> None:
    assert BlockIoClasses(Source("b", 'Classes: {a: [{Weight: ""}]}')).resolve("a") == {}


def test_the_machines_files_are_searched(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text("Classes: {a: [{Devices: [/dev/null*, /dev/none*], Weight: 50}]}")
    assert BlockIoClasses.read(file).resolve("a") == {}  # /dev/null is there, and no block device
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null1").write_text("")
    classes = BlockIoClasses.read(file, root=str(tmp_path))
    assert classes.find("/dev/null*") == [f"{tmp_path}/dev/null1"]


def test_keys_are_read_in_any_letter_case_and_empty_classes_change_nothing() -> None:
    text = "classes:\n  low:\n  - weight: 40\n  - null\n  mixed: [{wEIGHT: '50'}]\n  none:\n"
    classes = BlockIoClasses(Source("b.yaml", text))
    assert [classes.resolve(name) for name in classes.names] == [{"weight": 40}, {"weight": 50}, {}]
    assert BlockIoClasses(Source("b.yaml", "{}")).names == []


def test_a_mistake_in_a_key_of_another_case_has_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        BlockIoClasses(Source("b.yaml", "classes:\n  low:\n  - weight: 5\n"))
    assert caught.value.source == "b.yaml:3"
