"""Frequencies, governors and idle states of CPUs: writes, their order and errors."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nri.host import Outcome, Root
from nri.host.cpu_tuning import UNKNOWN, Limits, Setting, limits_of, tune, tune_uncore
from tests.support.host_trees import write_files

CPU = "sys/devices/system/cpu"
FREQUENCIES = {
    f"{CPU}/cpu1/cpufreq/cpuinfo_min_freq": "800000\n",
    f"{CPU}/cpu1/cpufreq/base_frequency": "2000000\n",
    f"{CPU}/cpu1/cpufreq/cpuinfo_max_freq": "3600000\n",
    f"{CPU}/cpu1/cpufreq/scaling_min_freq": "800000\n",
    f"{CPU}/cpu1/cpufreq/scaling_max_freq": "1000000\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/cpu1/cpufreq/energy_performance_preference": "balance_performance\n",
    f"{CPU}/cpu1/cpuidle/state0/name": "POLL\n",
    f"{CPU}/cpu1/cpuidle/state0/disable": "0\n",
    f"{CPU}/cpu1/cpuidle/state1/name": "C6\n",
    f"{CPU}/cpu1/cpuidle/state1/disable": "0\n",
}


class Written(Root):
    """A root that remembers what was written, and refuses some files."""

    def __init__(self, path: Path, refused: dict[str, int] | None = None, remaining: str = "") -> None:
        super().__init__(path)
        self.order: list[str] = []
        self.refused, self.kept = refused or {}, remaining

    def write(self, path: str, text: str) -> None:
        name = path.rpartition("/")[2]
        self.order.append(f"{name}={text}")
        if name in self.refused:
            raise OSError(self.refused[name], "no", path)
        super().write(path, self.kept or text)


def test_the_frequency_limits_of_a_cpu_are_read(tmp_path: Path) -> None:
    root = write_files(tmp_path, FREQUENCIES)
    assert limits_of(root, 1) == Limits(800000, 2000000, 3600000)
    assert limits_of(root, 2) == Limits(0, 0, 0)


def test_the_governor_is_written_first_and_limits_never_cross(tmp_path: Path) -> None:
    write_files(tmp_path, FREQUENCIES)
    root = Written(tmp_path)
    results = tune(root, 1, Setting(2000000, 3000000, "performance", "0", frozenset({"C6"})))
    assert all(row.in_force for row in results)
    assert root.order == [
        "scaling_governor=performance",
        "energy_performance_preference=0",
        "scaling_max_freq=3000000",
        "scaling_min_freq=2000000",
        "disable=1",
    ]
    written = Written(tmp_path)
    tune(written, 1, Setting(800000, 1000000, disabled=frozenset()))
    assert written.order == ["scaling_min_freq=800000", "scaling_max_freq=1000000", "disable=0"]


def test_a_preference_that_the_kernel_shows_as_a_word_counts_as_applied(tmp_path: Path) -> None:
    write_files(tmp_path, FREQUENCIES)
    (result,) = tune(Root(tmp_path), 1, Setting(preference="128"))
    assert result.outcome is Outcome.UNCHANGED


def test_equal_values_are_not_written(tmp_path: Path) -> None:
    write_files(tmp_path, FREQUENCIES)
    root = Written(tmp_path)
    results = tune(root, 1, Setting(800000, 1000000, "powersave"))
    assert {row.outcome for row in results} == {Outcome.UNCHANGED}
    assert root.order == []


def test_a_missing_file_is_reported_with_its_path(tmp_path: Path) -> None:
    results = tune(Root(tmp_path), 7, Setting(1, 2, "performance", "0", frozenset({"C6"})))
    results += tune(Root(tmp_path), 7, Setting(max_khz=UNKNOWN))
    assert {row.outcome for row in results} == {Outcome.UNSUPPORTED}
    assert "scaling_max_freq unsupported: the machine does not report its lowest" in str(results.pop())
    assert f"/{CPU}/cpu7/cpufreq/scaling_governor does not exist" in str(results[0])
    assert str(results[-1]).endswith(f"idle state C6 unsupported: /{CPU}/cpu7/cpuidle does not exist")


def test_an_unknown_idle_state_is_reported_with_the_known_states(tmp_path: Path) -> None:
    write_files(tmp_path, FREQUENCIES)
    results = tune(Root(tmp_path), 1, Setting(disabled=frozenset({"C9"})))
    assert [row.reason for row in results if not row.in_force] == ["the CPU has C6, POLL"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(errno.EROFS, Outcome.UNSUPPORTED), (errno.EBUSY, Outcome.REFUSED), (errno.ENODEV, Outcome.UNSUPPORTED)],
)
def test_a_refused_value_has_a_reason(tmp_path: Path, error: int, outcome: Outcome) -> None:
    write_files(tmp_path, FREQUENCIES)
    (result,) = tune(Written(tmp_path, {"scaling_governor": error}), 1, Setting(governor="performance"))
    assert (result.outcome, result.reason, result.after) == (outcome, "no", "powersave")


def test_a_value_that_reads_back_differently_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, FREQUENCIES)
    (result,) = tune(Written(tmp_path, remaining="3400000"), 1, Setting(max_khz=3600000))
    assert (result.outcome, result.reason) == (Outcome.CLAMPED, "the value reads back as 3400000")


def test_the_uncore_of_a_die_has_separate_limits(tmp_path: Path) -> None:
    folder = f"{CPU}/intel_uncore_frequency/package_00_die_01"
    write_files(tmp_path, {f"{folder}/min_freq_khz": "800000", f"{folder}/max_freq_khz": "2400000"})
    assert [results.outcome for results in tune_uncore(Root(tmp_path), 0, 1, 1200000, 0)] == [Outcome.APPLIED]
    assert (tmp_path / folder / "min_freq_khz").read_text() == "1200000"
    assert [results.outcome for results in tune_uncore(Root(tmp_path), 1, 1, 1, 2)] == [Outcome.UNSUPPORTED] * 2
