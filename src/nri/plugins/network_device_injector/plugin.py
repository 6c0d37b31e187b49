"""`network-device-injector`: move network devices of the host to pods, and back when the pods end.

A pod gets all its devices or does not start. A failure at the pod's end is only logged. The plugin runs in the host's
network namespace with CAP_NET_ADMIN and CAP_SYS_ADMIN, and needs access to the files of the pods' namespaces.
"""

from __future__ import annotations

import errno
from _thread import allocate_lock

import nri
from nri.plugins.network_device_injector.devices import KEYS, wanted_devices
from nri.plugins.network_device_injector.move import MoveError, Sides, settle_strays
from nri.plugins.network_device_injector.namespace import OWN, same
from nri.plugins.network_device_injector.netlink import Netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.plugins.network_device_injector.devices import NetworkDevice


class NetworkDeviceInjector(nri.Plugin):
    """Move network devices of the host to the pods that request them, and back when the pods end."""

    name = "network-device-injector"
    annotations: ClassVar[Mapping[str, str]] = dict.fromkeys(
        KEYS, "list of {name, new_name, address, prefix, mtu}: network devices of the host for the pod"
    )

    def __init__(self) -> None:
        #: Ids of pods that got devices from this process; for other pods the devices' aliases decide.
        self._pods_with_devices: set[str] = set()
        #: A runtime may report a pod's end while the pod's start, which timed out, still moves devices.
        self._move_lock = allocate_lock()

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        """Restore devices whose pods ended while this plugin did not run."""
        with self._move_lock:
            self._settle_strays()

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        devices, warnings = wanted_devices(pod)
        for warning in warnings:
            self.log.warning("%s", warning)
        if not devices:
            return
        path = _network(pod)
        if not path:
            raise nri.Reject("a pod on the host's network must not request network devices: it already has all devices")
        try:
            with self._move_lock, Sides(path) as sides:
                sides.move_in(devices)
                self._pods_with_devices.add(pod.id)
        except MoveError as error:
            notes = getattr(error, "__notes__", [])
            for note in notes:
                self.log.error("cannot undo: %s", note)  # noqa: TRY400 - the note has the reason
            undone = (
                f"some steps could not be undone: {', '.join(notes)}"
                if notes
                else "all network devices are back on the host"
            )
            raise nri.Reject(f"{error}; {undone}") from None
        except OSError as error:
            raise nri.Reject(f"network namespace {path}: {error.strerror}") from None
        for device in devices:
            self.log.info("network device %s is %s in the pod", device.name, device.new_name)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._take_back(pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._take_back(pod)  # for a pod whose stop was not reported
        self._pods_with_devices.discard(pod.id)

    def _take_back(self, pod: nri.PodSandbox) -> None:
        try:
            devices, _ = wanted_devices(pod)
        except nri.Reject:
            return  # it did not get a device
        path = _network(pod)
        if not devices or not path:
            return
        with self._move_lock:
            self._move_out(devices, path, is_from_host=pod.id in self._pods_with_devices)
            self._settle_strays()

    def _move_out(self, devices: list[NetworkDevice], path: str, *, is_from_host: bool) -> None:
        try:
            with Sides(path) as sides:
                for device in devices:
                    try:
                        if sides.move_out(device, is_from_host=is_from_host):
                            self.log.info("network device %s is back on the host", device.name)
                    except OSError as error:
                        self.log.error("network device %s: cannot take it back: %s", device.name, error.strerror)  # noqa: TRY400 - the reason is the kernel's
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):  # the namespace has ended; its file may remain
                self.log.error("network namespace %s: %s", path, error.strerror)  # noqa: TRY400

    def _settle_strays(self) -> None:
        try:
            with Netlink() as host:
                settled, failed = settle_strays(host)
            for name in settled:
                self.log.info("network device %s was moved back to the host by the kernel", name)
            for words in failed:
                self.log.error("network device %s", words)
        except OSError as error:
            self.log.error("cannot restore devices that are back on the host: %s", error.strerror)  # noqa: TRY400


def _network(pod: nri.PodSandbox) -> str:
    """The file of the pod's network namespace. Returns "" for the host's network."""
    path = next((namespace.path for namespace in pod.linux.namespaces if namespace.type == "network"), "")
    try:
        return "" if path and same(path, OWN) else path
    except OSError:
        return path  # opening it fails with the reason


if __name__ == "__main__":
    NetworkDeviceInjector.main()
