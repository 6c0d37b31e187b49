"""Set frequencies, governors and idle states of CPUs, and the uncore frequency of a die.

Source: Documentation/admin-guide/pm, cpufreq, intel_pstate, cpuidle and intel_uncore_frequency_scaling.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nri.host.outcome import GONE_ERRORS, Outcome, Result, explain
from nri.host.root import Root

#: The value of a frequency that is requested by name, but not reported by the machine.
UNKNOWN = -1

_CPUS = "/sys/devices/system/cpu"
_UNCORE = f"{_CPUS}/intel_uncore_frequency"
#: Names that the kernel returns for some numbers of energy preferences.
_PREFERENCES = {"0": "performance", "128": "balance_performance", "192": "balance_power", "255": "power"}


class Limits(NamedTuple):
    """The lowest, the base and the highest frequency of a CPU in kHz. 0 means that it is not reported."""

    min_khz: int = 0
    base_khz: int = 0
    max_khz: int = 0


class Setting(NamedTuple):
    """The settings of a CPU. 0, "" and None leave a setting unchanged. `disabled` has names of idle states."""

    min_khz: int = 0
    max_khz: int = 0
    governor: str = ""
    preference: str = ""
    disabled: frozenset[str] | None = None


def limits_of(root: Root, cpu: int) -> Limits:
    """The frequency limits of a CPU."""
    names = ("cpuinfo_min_freq", "base_frequency", "cpuinfo_max_freq")
    return Limits(*(_number(root, f"{_CPUS}/cpu{cpu}/cpufreq/{name}") for name in names))


def tune(root: Root, cpu: int, setting: Setting) -> list[Result]:
    """Apply settings to a CPU. Returns a result for each setting, without exceptions."""
    target, base = f"cpu{cpu}", f"{_CPUS}/cpu{cpu}/cpufreq"
    results = []
    if setting.governor:
        results.append(write_value(root, target, f"{base}/scaling_governor", setting.governor))
    if setting.preference:
        same = _PREFERENCES.get(setting.preference, "")
        results.append(write_value(root, target, f"{base}/energy_performance_preference", setting.preference, same))
    results += _range(root, target, base, ("scaling_min_freq", "scaling_max_freq"), setting.min_khz, setting.max_khz)
    if setting.disabled is not None:
        results += _set_idle_states(root, target, f"{_CPUS}/cpu{cpu}/cpuidle", setting.disabled)
    return results


def tune_uncore(root: Root, package: int, die: int, min_khz: int, max_khz: int) -> list[Result]:
    """Set the uncore frequencies of a die. 0 leaves a frequency unchanged."""
    folder = f"package_{package:02}_die_{die:02}"
    return [*_range(root, folder, f"{_UNCORE}/{folder}", ("min_freq_khz", "max_freq_khz"), min_khz, max_khz)]


def _range(
    root: Root, target: str, folder: str, names: tuple[str, str], min_khz: int, max_khz: int
) -> Iterable[Result]:
    """Write both limits, the upper limit first if the new lower limit exceeds the current upper limit."""
    low, high = ((f"{folder}/{name}", khz) for name, khz in zip(names, (min_khz, max_khz), strict=True))
    for path, khz in (high, low) if min_khz > _number(root, high[0]) else (low, high):
        if khz > 0:
            yield write_value(root, target, path, str(khz))
        elif khz == UNKNOWN:
            reason = "the machine does not report its lowest, base and highest frequency"
            yield Result(target, path.rpartition("/")[2], khz, Outcome.UNSUPPORTED, reason)


def _set_idle_states(root: Root, target: str, folder: str, disabled: frozenset[str]) -> Iterable[Result]:
    """Disable idle states with these names, and enable all other idle states."""
    states = {name: path for path in root.folders(folder) if (name := root.find(f"{folder}/{path}/name"))}
    files = {name.strip(): f"{folder}/{path}/disable" for name, path in states.items()}
    for name in sorted(disabled - files.keys()):
        reason = f"the CPU has {', '.join(sorted(files))}" if files else f"{folder} does not exist"
        yield Result(target, f"idle state {name}", "disabled", Outcome.UNSUPPORTED, reason)
    for name, path in files.items():
        yield write_value(root, target, path, "1" if name in disabled else "0")


def write_value(root: Root, target: str, path: str, value: str, same: str = "") -> Result:
    """Write a value to a file of the kernel, unless the file already has it.

    Args:
        same: another spelling that the kernel may return for this value.
    """
    name = path.rpartition("/")[2]
    before = root.find(path)
    if before is None:
        return Result(target, name, value, Outcome.UNSUPPORTED, f"{path} does not exist")
    before = before.strip()
    if before in (value, same):
        return Result(target, name, value, Outcome.UNCHANGED, "", before, before)
    try:
        root.write(path, value)
    except OSError as error:
        outcome, reason = explain(error)
        is_missing = error.errno in GONE_ERRORS
        return Result(target, name, value, Outcome.UNSUPPORTED if is_missing else outcome, reason, before, before)
    after = (root.find(path) or "").strip()
    if after in (value, same):
        return Result(target, name, value, Outcome.APPLIED, "", before, after)
    return Result(target, name, value, Outcome.CLAMPED, f"the value reads back as {after}", before, after)


def _number(root: Root, path: str) -> int:
    text = (root.find(path) or "").strip()
    return int(text) if text.isdecimal() else 0
