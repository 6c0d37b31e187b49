"""System-wide kernel settings: sysctls of scheduling and memory, and features of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nri.host.outcome import GONE_ERRORS, Outcome, Result, Unsupported, explain
from nri.host.root import Root

_FEATURES = ("/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features")
_MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class KernelSetting:
    """A system-wide kernel setting: a sysctl, or a file in /sys/kernel/mm.

    Attributes:
        path: the setting's file.
        kernels: the only kernels that have the setting.
        excludes: a setting that cannot be non-zero at the same time as this one.
    """

    path: str
    kernels: str = "Linux"
    excludes: str = ""


_ANOLIS = "Anolis OS and Alibaba Cloud Linux"

KERNEL_SETTINGS = {
    "kernel.sched_core": KernelSetting("/proc/sys/kernel/sched_core", _ANOLIS, "kernel.sched_group_identity_enabled"),
    "kernel.sched_group_identity_enabled": KernelSetting(
        "/proc/sys/kernel/sched_group_identity_enabled", _ANOLIS, "kernel.sched_core"
    ),
    "vm.memcg_qos_enable": KernelSetting("/proc/sys/vm/memcg_qos_enable", "openEuler"),
    "vm.min_free_kbytes": KernelSetting("/proc/sys/vm/min_free_kbytes"),
    "vm.watermark_scale_factor": KernelSetting("/proc/sys/vm/watermark_scale_factor"),
    "mm.memcg_reaper": KernelSetting("/sys/kernel/mm/memcg_reaper/reap_background", _ANOLIS),
    "mm.pagecache_limit": KernelSetting("/sys/kernel/mm/pagecache_limit/enabled", _ANOLIS),
    "kernel.sched_cfs_bandwidth_slice_us": KernelSetting(
        "/proc/sys/kernel/sched_cfs_bandwidth_slice_us", "Linux before 5.13"
    ),
}
"""Kernel settings by their name in sysctl(8), or by their folder in /sys/kernel/mm."""


def read_switch(root: Root, name: str) -> int | Unsupported:
    """The value of a kernel setting. Raises KeyError if the name is not in `KERNEL_SETTINGS`."""
    setting = KERNEL_SETTINGS[name]
    text = root.find(setting.path)
    try:
        return Unsupported(_missing(name)) if text is None else int(text)
    except ValueError:
        return Unsupported(f"{name} has the value {text!r}, which is not a number")


def set_switch(root: Root, name: str, value: int) -> Result:
    """Set a kernel setting; first set the setting that it excludes to 0.

    Raises KeyError if the name is not in `KERNEL_SETTINGS`.
    """
    setting = KERNEL_SETTINGS[name]
    before = read_switch(root, name)
    if isinstance(before, Unsupported):
        return Result(_MACHINE, name, value, Outcome.UNSUPPORTED, before.reason)
    if value and setting.excludes:
        other = read_switch(root, setting.excludes)
        if isinstance(other, int) and other != 0:
            off = _write(root, setting.excludes, 0, other)
            if not off.in_force:
                reason = f"{setting.excludes} excludes {name}, and cannot be disabled: {off.reason}"
                return Result(_MACHINE, name, value, Outcome.REFUSED, reason, before, before)
    if before == value:
        return Result(_MACHINE, name, value, Outcome.UNCHANGED, "", before, before)
    return _write(root, name, value, before)


def _write(root: Root, name: str, value: int, before: int) -> Result:
    try:
        root.write(KERNEL_SETTINGS[name].path, str(value))
    except OSError as error:
        return Result(_MACHINE, name, value, *_explained_error(name, error), before)
    after = read_switch(root, name)
    if after == value:
        return Result(_MACHINE, name, value, Outcome.APPLIED, "", before, after)
    return Result(_MACHINE, name, value, Outcome.CLAMPED, f"the value reads back as {after}", before, after)


def _explained_error(name: str, error: OSError) -> tuple[Outcome, str]:
    if error.errno in GONE_ERRORS:
        return Outcome.UNSUPPORTED, _missing(name)
    return explain(error)


def _missing(name: str) -> str:
    kernels = KERNEL_SETTINGS[name].kernels
    return f"this kernel does not have {name}" + ("" if kernels == "Linux" else f": only {kernels} has this setting")


def read_features(root: Root) -> dict[str, bool] | Unsupported:
    """Whether each feature of the scheduler is enabled, from debugfs, which must be mounted."""
    for path in _FEATURES:
        text = root.find(path)
        if text is not None:
            return {word.removeprefix("NO_"): not word.startswith("NO_") for word in text.split()}
    return Unsupported(f"neither {_FEATURES[0]} nor {_FEATURES[1]} can be read: check that debugfs is mounted")


def set_features(root: Root, features: Mapping[str, bool]) -> list[Result]:
    """Enable or disable features of the scheduler. Returns a result for each feature; does not raise."""
    present = read_features(root)
    if isinstance(present, Unsupported):
        return [Result(_MACHINE, name, on, Outcome.UNSUPPORTED, present.reason) for name, on in features.items()]
    return [_set_feature(root, name, on, present) for name, on in features.items()]


def _set_feature(root: Root, name: str, on: bool, present: Mapping[str, bool]) -> Result:
    if name not in present:
        return Result(_MACHINE, name, on, Outcome.UNSUPPORTED, f"this kernel's scheduler has no feature {name}")
    before = present[name]
    if before == on:
        return Result(_MACHINE, name, on, Outcome.UNCHANGED, "", before, before)
    path = next(path for path in _FEATURES if root.exists(path))
    try:
        root.write(path, name if on else f"NO_{name}")
    except OSError as error:
        return Result(_MACHINE, name, on, *explain(error), before)
    features = read_features(root)
    after = features.get(name) if isinstance(features, dict) else None
    if after == on:
        return Result(_MACHINE, name, on, Outcome.APPLIED, "", before, after)
    return Result(_MACHINE, name, on, Outcome.CLAMPED, "the feature did not change", before, after)
