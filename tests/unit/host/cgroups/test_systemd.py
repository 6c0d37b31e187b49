"""Cgroup values as properties of systemd units, sent over D-Bus."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jeepney import HeaderFields, Message, Parser, new_error, new_method_return

from nri.host.cgroups.systemd import DEFAULT_PERIOD_US, SystemdUnits, unit_of, unit_properties
from nri.host.root import Root

NO_LIMIT = (1 << 64) - 1


class FakeBus:
    """A D-Bus system bus below a root folder. It serves one client after the other.

    Attributes:
        error: the text of the error that answers each call; "" to accept the calls.
        calls: interface, member and body of each call, without those of the connection itself.
    """

    def __init__(self, root: Path) -> None:
        self.error = ""
        self.calls: list[tuple[str, str, Any]] = []
        path = root / "run/dbus/system_bus_socket"
        path.parent.mkdir(parents=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            with client, client.makefile("rb") as requests:
                self._serve_client(client, requests)

    def _serve_client(self, client: socket.socket, requests: Any) -> None:
        assert requests.readline().startswith(b"\0AUTH EXTERNAL ")
        client.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
        assert requests.readline() == b"BEGIN\r\n"
        parser, serial = Parser(), 0
        while data := requests.read1(4096):
            parser.add_data(data)
            while (call := parser.get_next_message()) is not None:
                serial += 1
                client.sendall(self._reply(call).serialise(serial=serial))

    def _reply(self, call: Message) -> Message:
        fields = call.header.fields
        if fields[HeaderFields.member] == "Hello":
            return new_method_return(call, "s", (":1.1",))
        self.calls.append((fields[HeaderFields.interface], fields[HeaderFields.member], call.body))
        if self.error:
            return new_error(call, "org.freedesktop.systemd1.NoSuchUnit", "s", (self.error,))
        return new_method_return(call)


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with systemd. Its path is short, because the paths of sockets are limited to 107 bytes."""
    path = tmp_path_factory.mktemp("root")
    (path / "run/systemd/system").mkdir(parents=True)
    return path


@pytest.fixture
def bus(root: Path) -> Iterator[FakeBus]:
    fake_bus = FakeBus(root)
    yield fake_bus
    fake_bus.close()


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/kubepods.slice", "kubepods.slice"),
        ("kubepods.slice/kubepods-pod1.slice/", "kubepods-pod1.slice"),
        ("kubepods.slice/cri-1.scope", "cri-1.scope"),
        ("system.slice/sshd.service", "sshd.service"),
        ("kubepods.slice/cri-1.scope/app.slice", ""),
        ("kubepods/pod1.slice", ""),
        ("kubepods.slice/pod1", ""),
        ("/", ""),
        ("", ""),
    ],
)
def test_a_unit_is_the_last_folder_of_a_path_of_slices(cgroup: str, unit: str) -> None:
    assert unit_of(cgroup) == unit


@pytest.mark.parametrize(
    ("name", "value", "key", "property_"),
    [
        ("cpu.shares", 1024, "CPUWeight", ("t", 39)),
        ("cpu.cfs_period", 50_000, "CPUQuotaPeriodUSec", ("t", 50_000)),
        ("cpuset.cpus", frozenset({0, 1, 9}), "AllowedCPUs", ("ay", b"\x03\x02")),
        ("cpuset.cpus", frozenset(), "AllowedCPUs", ("ay", b"")),
        ("cpuset.mems", frozenset({7}), "AllowedMemoryNodes", ("ay", b"\x80")),
        ("memory.limit", 1 << 30, "MemoryMax", ("t", 1 << 30)),
        ("memory.limit", -1, "MemoryMax", ("t", NO_LIMIT)),
        ("memory.swap_limit", 0, "MemorySwapMax", ("t", 0)),
        ("memory.min", 1, "MemoryMin", ("t", 1)),
        ("memory.low", 2, "MemoryLow", ("t", 2)),
        ("memory.high", -1, "MemoryHigh", ("t", NO_LIMIT)),
        ("pids.limit", -1, "TasksMax", ("t", NO_LIMIT)),
        ("io.weight", 505, "IOWeight", ("t", 5000)),
        ("io.bfq.weight", 60, "IOWeight", ("t", 60)),
        ("io.bfq.weight", 1000, "IOWeight", ("t", 10_000)),
    ],
)
def test_each_setting_is_a_property_of_its_unit(name: str, value: Any, key: str, property_: tuple[str, Any]) -> None:
    assert unit_properties({name: value, "cpu.idle": 1}) == {key: property_}


@pytest.mark.parametrize(
    ("values", "per_second", "period"),
    [
        ({"cpu.cfs_quota": 20_000}, 200_000, DEFAULT_PERIOD_US),
        ({"cpu.cfs_quota": 20_000, "cpu.cfs_period": 30_000}, 666_667, 30_000),
        ({"cpu.cfs_quota": -1, "cpu.cfs_period": 30_000}, NO_LIMIT, 30_000),
    ],
)
def test_a_quota_is_time_per_second_with_its_period(values: dict[str, int], per_second: int, period: int) -> None:
    properties = {"CPUQuotaPerSecUSec": ("t", per_second), "CPUQuotaPeriodUSec": ("t", period)}
    assert unit_properties(values) == properties


def test_systemd_computes_the_same_quota_from_the_property() -> None:
    for period in (1_000, 30_000, 99_999, 1_000_000):
        for quota in range(1_000, 4_000):
            _, per_second = unit_properties({"cpu.cfs_quota": quota}, period)["CPUQuotaPerSecUSec"]
            assert per_second * period // 1_000_000 == quota


def test_only_units_are_owned_and_only_if_systemd_runs(root: Path, tmp_path: Path) -> None:
    units = SystemdUnits(Root(root))
    assert units.owns("kubepods.slice") and not units.owns("kubepods/pod1")
    assert not SystemdUnits(Root(tmp_path)).owns("kubepods.slice")


def test_the_manager_gets_the_properties_of_a_unit(root: Path, bus: FakeBus, caplog: pytest.LogCaptureFixture) -> None:
    units = SystemdUnits(Root(f"{root}/"))
    units.keep("a.slice/b.scope", {"cpuset.cpus": frozenset({1}), "cpu.cfs_quota": 5_000}, 50_000)
    units.keep("a.slice", {"memory.min": 4096}, DEFAULT_PERIOD_US)
    units.keep("a.slice", {"cpu.idle": 1}, DEFAULT_PERIOD_US)  # systemd has no property for it
    method = "org.freedesktop.systemd1.Manager", "SetUnitProperties"
    properties = [
        ("AllowedCPUs", ("ay", b"\x02")),
        ("CPUQuotaPerSecUSec", ("t", 100_000)),
        ("CPUQuotaPeriodUSec", ("t", 50_000)),
    ]
    assert bus.calls == [
        (*method, ("b.scope", True, properties)),
        (*method, ("a.slice", True, [("MemoryMin", ("t", 4096))])),
    ]
    assert caplog.messages == []


def test_a_refusal_is_logged_once_per_unit_and_at_most_64_times(
    root: Path, bus: FakeBus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.error, units = "Unit not loaded.", SystemdUnits(Root(root))
    for number in (0, *range(70)):
        units.keep(f"{number}.slice", {"memory.min": 4096}, DEFAULT_PERIOD_US)
    assert len(bus.calls) == 71
    assert caplog.messages == [
        f"systemd does not keep values of {number}.slice: Unit not loaded." for number in range(64)
    ]


def _remove_jeepney(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jeepney", None)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda _: None, "/run/dbus/system_bus_socket: [Errno 2] No such file or directory"),
        (_remove_jeepney, "the Python package jeepney is not installed; install the extra nri[cri]"),
    ],
    ids=["no bus", "no jeepney"],
)
def test_a_bus_that_cannot_be_used_is_logged_once(
    prepare: Callable[[pytest.MonkeyPatch], None],
    reason: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prepare(monkeypatch)
    units = SystemdUnits(Root(root))
    for cgroup in ("a.slice", "b.slice"):
        units.keep(cgroup, {"memory.min": 4096}, DEFAULT_PERIOD_US)
    (message,) = caplog.messages
    assert message.startswith("systemd resets cgroup values when it reloads: ") and message.endswith(reason)


def test_a_bus_that_never_replies_delays_one_write_a_minute(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        (root / "run/dbus").mkdir(parents=True, exist_ok=True)
        silent.bind(str(root / "run/dbus/system_bus_socket"))
        silent.listen()
        silent.setblocking(False)
        units = SystemdUnits(Root(root))
        units.keep("a.slice", {"memory.min": 4096}, DEFAULT_PERIOD_US)
        silent.accept()[0].close()
        units.keep("b.slice", {"memory.min": 4096}, DEFAULT_PERIOD_US)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert len(caplog.messages) == 1


POD_SLICE = "kubepods.slice/kubepods-podu_1.slice"
OVERRIDES = "run/systemd/system.control"


def test_properties_of_a_removed_pod_are_removed_if_systemd_would_keep_them(root: Path, bus: FakeBus) -> None:
    units = SystemdUnits(Root(root))
    cgroups = (POD_SLICE, "kubepods.slice", f"{POD_SLICE}/nri-1.scope")
    units.forget(POD_SLICE)  # systemd keeps nothing
    for cgroup in cgroups:
        (root / OVERRIDES / f"{cgroup.rpartition('/')[2]}.d").mkdir(parents=True)
    for cgroup in cgroups:
        units.forget(cgroup)
    assert bus.calls == [("org.freedesktop.systemd1.Manager", "RevertUnitFiles", (["kubepods-podu_1.slice"],))]


def test_a_process_is_in_its_scope_when_the_call_returns(root: Path, bus: FakeBus) -> None:
    file = root / "proc/7/cgroup"
    file.parent.mkdir(parents=True)
    file.write_text("0::/system.slice/nri-engine.service\n")
    moved = file.with_name("moved")
    moved.write_text("0::/a.slice/conmon-1.scope\n")
    # As in /proc, a reader sees the cgroup before or after the move, and never an empty file.
    timer = threading.Timer(0.2, moved.replace, (file,))
    timer.start()
    SystemdUnits(Root(root)).start_scope("conmon-1.scope", "a.slice", 7)
    timer.join()
    assert file.read_text() == "0::/a.slice/conmon-1.scope\n"
    ((_, method, (name, mode, properties, _)),) = bus.calls
    assert (method, name, mode) == ("StartTransientUnit", "conmon-1.scope", "fail")
    assert dict(properties) == {
        "Slice": ("s", "a.slice"),
        "PIDs": ("au", [7]),
        "DefaultDependencies": ("b", False),
        "CollectMode": ("s", "inactive-or-failed"),
    }


def test_without_systemd_no_unit_is_started_or_stopped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    units = SystemdUnits(Root(tmp_path))
    units.start_scope("conmon-1.scope", "a.slice", 7)
    units.stop("a.slice")
    units.forget(POD_SLICE)
    assert caplog.messages == []


def test_a_scope_that_does_not_start_is_logged(root: Path, bus: FakeBus, caplog: pytest.LogCaptureFixture) -> None:
    bus.error = "Unit exists."
    SystemdUnits(Root(root)).start_scope("conmon-1.scope", "a.slice", 7)
    problem = "processes stay in the cgroup of the program that starts them"
    assert caplog.messages == [f"{problem}: conmon-1.scope: Unit exists."]
