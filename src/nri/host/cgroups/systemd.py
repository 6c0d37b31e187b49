"""The cgroups that belong to systemd: keep their values, put a process into a scope, stop a slice.

systemd writes the files of its slices, scopes and services whenever it reloads (`systemctl daemon-reload`) and when a
first unit appears below a slice. A value that is only written to the file is then lost. A value that is a property of
the unit stays until the unit ends. runc does the same for containers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nri.host.cgroups.units import Value, blkio_to_io_weight, shares_to_weight
from nri.host.root import Root

if TYPE_CHECKING:
    import socket

_SUFFIXES: Final = (".slice", ".scope", ".service")
_SOCKET: Final = "/run/dbus/system_bus_socket"
#: The folder in which systemd keeps properties of units without a unit file, until the machine restarts.
_OVERRIDES: Final = "/run/systemd/system.control"
#: Timeout of a call. systemd replies in milliseconds. A hook of the agent waits for the reply, so that a bus that hangs
#: must not delay many hooks.
_TIMEOUT_S: Final = 0.5
_SCOPE_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.002
_RESETS: Final = "systemd resets cgroup values when it reloads"
_PAUSE_AFTER_FAILURE_S: Final = 60.0
_MAX_PROBLEMS: Final = 64
_INFINITY: Final = (1 << 64) - 1
_SECOND_US: Final = 1_000_000
DEFAULT_PERIOD_US: Final = 100_000
_DEFAULT_WEIGHT: Final = 100
#: The name of `io.weight` for systemd where the kernel's file is this one, because systemd converts weights for it.
BFQ_WEIGHT_FILE: Final = "io.bfq.weight"
#: D-Bus: the type and the value of a property.
_Property = tuple[str, Any]


def _limit(value: Any) -> _Property:
    return "t", _INFINITY if value < 0 else value


def _cpu_set(value: Any) -> _Property:
    mask = sum(1 << number for number in value)
    return "ay", mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _bfq_weight(value: Any) -> _Property:
    """The weight from which systemd computes this one for BFQ: 1 to 100 are the same, the rest spans eleven times."""
    return "t", value if value <= _DEFAULT_WEIGHT else _DEFAULT_WEIGHT + 11 * (value - _DEFAULT_WEIGHT)


_PROPERTIES: Final[dict[str, tuple[str, Callable[[Any], _Property]]]] = {
    "cpu.shares": ("CPUWeight", lambda value: ("t", shares_to_weight(value))),
    "cpu.cfs_period": ("CPUQuotaPeriodUSec", lambda value: ("t", value)),
    "cpuset.cpus": ("AllowedCPUs", _cpu_set),
    "cpuset.mems": ("AllowedMemoryNodes", _cpu_set),
    "memory.limit": ("MemoryMax", _limit),
    "memory.swap_limit": ("MemorySwapMax", _limit),
    "memory.min": ("MemoryMin", _limit),
    "memory.low": ("MemoryLow", _limit),
    "memory.high": ("MemoryHigh", _limit),
    "pids.limit": ("TasksMax", _limit),
    "io.weight": ("IOWeight", lambda value: ("t", blkio_to_io_weight(value))),
    BFQ_WEIGHT_FILE: ("IOWeight", _bfq_weight),
}
"""Property of a unit and its value, by the neutral name of a knob. The CPU quota also needs the period."""


def unit_of(cgroup: str) -> str:
    """The systemd unit of a cgroup. Returns "" if the cgroup is not a unit's cgroup, for example below a scope."""
    *parents, name = cgroup.strip("/").split("/")
    in_slices = all(parent.endswith(".slice") for parent in parents)
    return name if in_slices and name.endswith(_SUFFIXES) else ""


def unit_properties(values: Mapping[str, Value], period_us: int = DEFAULT_PERIOD_US) -> dict[str, _Property]:
    """The properties of a unit for the values of its cgroup. Values without a property are ignored.

    Args:
        values: values by the neutral name of a knob.
        period_us: the period of the CPU quota, if `values` has none.
    """
    properties: dict[str, _Property] = {}
    for name, value in values.items():
        if name in _PROPERTIES:
            key, convert = _PROPERTIES[name]
            properties[key] = convert(value)
    quota = values.get("cpu.cfs_quota")
    if isinstance(quota, int):
        period = values.get("cpu.cfs_period", period_us)
        assert isinstance(period, int)
        # Rounded up, because systemd rounds down when it converts this to a quota.
        properties["CPUQuotaPerSecUSec"] = "t", _INFINITY if quota < 0 else -(-quota * _SECOND_US // period)
        properties["CPUQuotaPeriodUSec"] = "t", period
    return properties


class SystemdUnits:
    """The units of a machine's systemd. Any thread may call it.

    Args:
        root: the machine. Without systemd on it, calls have no effect.
    """

    def __init__(self, root: Root) -> None:
        self._root, self._socket = root, root.path.rstrip("/") + _SOCKET
        self._is_running = root.exists("/run/systemd/system")
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._paused_until = 0.0

    def owns(self, cgroup: str) -> bool:
        """Whether systemd also writes the files of this cgroup."""
        return self._is_running and bool(unit_of(cgroup))

    def keep(self, cgroup: str, values: Mapping[str, Value], period_us: int) -> None:
        """Make values of a unit's cgroup properties of the unit, until the unit ends or the machine restarts.

        A problem is logged once. The caller writes the files in any case, but a reload of systemd resets them then.
        After a failed connection this method does not connect for a minute.
        """
        if properties := unit_properties(values, period_us):
            unit = unit_of(cgroup)
            # True: until this unit ends or the machine restarts.
            body = unit, True, list(properties.items())
            self._call(_RESETS, f"systemd does not keep values of {unit}", "SetUnitProperties", "sba(sv)", body)

    def forget(self, cgroup: str) -> None:
        """Remove the properties that systemd would keep for a removed pod until the machine restarts.

        systemd itself removes properties of scopes and transient slices, for example the kubelet's, but not properties
        of a slice that only exists because a unit is in it.
        """
        unit = unit_of(cgroup)
        # The slice of a QoS class is not examined, because it has other pods.
        is_pod = unit.endswith(".slice") and "-pod" in unit
        if is_pod and self._is_running and self._root.exists(f"{_OVERRIDES}/{unit}.d"):
            problem = f"{_OVERRIDES}/{unit}.d stays until the machine restarts"
            self._call(problem, problem, "RevertUnitFiles", "as", ([unit],))

    def start_scope(self, name: str, parent: str, pid: int) -> None:
        """Start a scope with a process, and wait until the process is in it. A problem is logged once."""
        if not self._is_running:
            return
        properties = [
            ("Slice", ("s", parent)), ("PIDs", ("au", [pid])), ("DefaultDependencies", ("b", False)),
            ("CollectMode", ("s", "inactive-or-failed")),
        ]  # fmt: skip
        problem = "processes stay in the cgroup of the program that starts them"
        if not self._call(problem, f"{problem}: {name}", "StartTransientUnit", "ssa(sv)a(sa(sv))",
                          (name, "fail", properties, [])):  # fmt: skip
            return
        deadline = time.monotonic() + _SCOPE_TIMEOUT_S
        while (text := self._root.find(f"/proc/{pid}/cgroup")) and f"/{name}\n" not in text:
            if time.monotonic() > deadline:
                self._report(f"{problem}: systemd did not start {name} within {_SCOPE_TIMEOUT_S:g} s")
                return
            time.sleep(_POLL_S)

    def stop(self, unit: str) -> None:
        """Stop a unit and all units in it. A problem is logged once."""
        if self._is_running:
            self._call("slices of pods stay", f"{unit} stays", "StopUnit", "ss", (unit, "replace"))

    def _call(self, problem: str, refusal: str, method: str, signature: str, body: tuple[Any, ...]) -> bool:
        """Call a method of systemd's manager. Returns False if systemd refuses or does not reply, which is logged once.

        Args:
            problem: the beginning of the message if there is no reply.
            refusal: the beginning of the message if systemd replies with an error.
            method: the method.
            signature: the D-Bus signature of `body`.
            body: the arguments.
        """
        if time.monotonic() < self._paused_until:
            return False
        try:
            with self._lock:
                answer = self._send(method, signature, body)
        except ModuleNotFoundError:
            self._report(f"{problem}: the Python package jeepney is not installed; install the extra nri[cri]")
            return False
        except Exception as error:  # noqa: BLE001  jeepney raises any error of its sockets and parsers
            self._paused_until = time.monotonic() + _PAUSE_AFTER_FAILURE_S
            self._report(f"{problem}: {self._socket}: {str(error) or type(error).__name__}")
            return False
        if answer:
            self._report(f"{refusal}: {answer}")
        return not answer

    def _send(self, method: str, signature: str, body: tuple[Any, ...]) -> str:
        """Call a method of systemd's manager. Returns its error, or ""."""
        from jeepney import DBusAddress, MessageType, new_method_call  # noqa: PLC0415  an extra
        from jeepney.io.blocking import DBusConnection, prep_socket  # noqa: PLC0415

        manager = DBusAddress(
            "/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager"
        )
        bus = prep_socket(self._socket, timeout=_TIMEOUT_S)
        # DBusConnection waits for the reply to its first message without a timeout.
        timer = threading.Timer(_TIMEOUT_S, _shut_down, (bus,))
        timer.daemon = True
        timer.start()
        try:
            with DBusConnection(bus) as connection:
                reply = connection.send_and_get_reply(new_method_call(manager, method, signature, body))
        finally:
            timer.cancel()
            bus.close()
        return ", ".join(map(str, reply.body)) if reply.header.message_type is MessageType.error else ""

    def _report(self, problem: str) -> None:
        if problem not in self._reported and len(self._reported) < _MAX_PROBLEMS:
            self._reported.add(problem)
            import logging  # noqa: PLC0415  a plugin that writes no cgroup starts without it

            logging.getLogger(__name__).warning("%s", problem)


def _shut_down(bus: socket.socket) -> None:
    """End the wait of the thread that reads from a bus."""
    import socket  # noqa: PLC0415  a plugin that writes no cgroup starts without it

    with suppress(OSError):  # it has just been closed
        bus.shutdown(socket.SHUT_RDWR)
