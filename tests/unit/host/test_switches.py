"""Kernel switches of the machine: exclusive switches and missing switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import Outcome, Root, Unsupported, read_switch, set_switch
from nri.host.switches import read_features, set_features
from tests.support.host_trees import write_files

CORE, IDENTITY = "kernel.sched_core", "kernel.sched_group_identity_enabled"
FOLDER = "proc/sys/kernel"


def anolis(folder: Path, core: str, identity: str) -> Root:
    return write_files(folder, {f"{FOLDER}/sched_core": core, f"{FOLDER}/sched_group_identity_enabled": identity})


def test_enabling_a_switch_disables_the_exclusive_switch(tmp_path: Path) -> None:
    root = anolis(tmp_path, "1\n", "0\n")
    result = set_switch(root, IDENTITY, 1)
    assert (result.outcome, result.before, result.after) == (Outcome.APPLIED, 0, 1)
    assert (read_switch(root, CORE), read_switch(root, IDENTITY)) == (0, 1)


def test_an_enabled_switch_still_disables_the_other(tmp_path: Path) -> None:
    root = anolis(tmp_path, "1\n", "1\n")
    assert set_switch(root, IDENTITY, 1).outcome is Outcome.UNCHANGED
    assert read_switch(root, CORE) == 0


def test_disabling_a_switch_does_not_change_the_other(tmp_path: Path) -> None:
    root = anolis(tmp_path, "1", "1")
    assert set_switch(root, IDENTITY, 0).outcome is Outcome.APPLIED
    assert read_switch(root, CORE) == 1


def test_a_missing_switch_is_unsupported_with_the_required_kernels(tmp_path: Path) -> None:
    result = set_switch(Root(tmp_path), CORE, 1)
    assert result.outcome is Outcome.UNSUPPORTED
    assert (
        result.reason
        == "this kernel does not have kernel.sched_core: only Anolis OS and Alibaba Cloud Linux has this setting"
    )
    with pytest.raises(KeyError):
        read_switch(Root(tmp_path), "kernel.nothing")


def test_a_value_that_is_not_a_number_is_reported(tmp_path: Path) -> None:
    switch = read_switch(anolis(tmp_path, "many\n", "0"), CORE)
    assert switch == Unsupported("kernel.sched_core has the value 'many\\n', which is not a number")


class Stubborn(Root):
    """A kernel that takes no switch, or takes them and does nothing."""

    def __init__(self, path: Path, error: OSError | None) -> None:
        super().__init__(path)
        self.error = error

    def write(self, path: str, text: str) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(PermissionError(13, "Permission denied"), Outcome.REFUSED), (FileNotFoundError(2, "gone"), Outcome.UNSUPPORTED),
     (None, Outcome.CLAMPED)],
)  # fmt: skip
def test_a_refusal_of_the_kernel_is_reported(tmp_path: Path, error: OSError | None, outcome: Outcome) -> None:
    anolis(tmp_path, "0", "0")
    result = set_switch(Stubborn(tmp_path, error), CORE, 1)
    assert result.outcome is outcome
    assert result.reason


def test_a_switch_that_cannot_be_disabled_keeps_the_other_disabled(tmp_path: Path) -> None:
    anolis(tmp_path, "1", "0")
    result = set_switch(Stubborn(tmp_path, PermissionError(13, "Permission denied")), IDENTITY, 1)
    assert result.outcome is Outcome.REFUSED
    assert (
        result.reason
        == "kernel.sched_core excludes kernel.sched_group_identity_enabled, and cannot be disabled: Permission denied"
    )


FEATURES = "ID_EXPELLER_SHARE_CORE NO_ID_ABSOLUTE_EXPEL"


@pytest.mark.parametrize("place", ["sys/kernel/debug/sched_features", "sys/kernel/debug/sched/features"])
def test_scheduler_features_are_switched_separately(tmp_path: Path, place: str) -> None:
    root = write_files(tmp_path, {place: FEATURES})
    assert read_features(root) == {"ID_EXPELLER_SHARE_CORE": True, "ID_ABSOLUTE_EXPEL": False}
    results = set_features(root, {"ID_EXPELLER_SHARE_CORE": True, "ID_ABSOLUTE_EXPEL": True, "NEW": True})
    assert [result.outcome for result in results] == [Outcome.UNCHANGED, Outcome.APPLIED, Outcome.UNSUPPORTED]
    assert (tmp_path / place).read_text() == "ID_ABSOLUTE_EXPEL"
    assert results[2].reason == "this kernel's scheduler has no feature NEW"
    assert [result.outcome for result in set_features(root, {"ID_ABSOLUTE_EXPEL": False})] == [Outcome.APPLIED]


def test_scheduler_features_require_debugfs(tmp_path: Path) -> None:
    (result,) = set_features(Root(tmp_path), {"X": True})
    assert result.outcome is Outcome.UNSUPPORTED
    assert "check that debugfs is mounted" in result.reason


@pytest.mark.parametrize(("error", "outcome"), [(PermissionError(1, "no"), Outcome.REFUSED), (None, Outcome.CLAMPED)])
def test_a_feature_that_does_not_change_is_reported(tmp_path: Path, error: OSError | None, outcome: Outcome) -> None:
    write_files(tmp_path, {"sys/kernel/debug/sched_features": FEATURES})
    (result,) = set_features(Stubborn(tmp_path, error), {"ID_ABSOLUTE_EXPEL": True})
    assert (result.outcome, result.before) == (outcome, False)
