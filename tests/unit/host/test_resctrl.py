"""Shares of caches and memory bandwidth: capabilities, groups, schemata and threads."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.host import Outcome, Resctrl, Root, Unsupported
from nri.host.resctrl import Bandwidth, Cache, format_line, parse_schemata
from tests.support.host_trees import write_files

TOP = "sys/fs/resctrl"
SCHEMATA = "    MB:0=100;1=100\n    L3:0=fff;1=fff\n"
FILES = {
    f"{TOP}/schemata": SCHEMATA,
    f"{TOP}/tasks": "3\n1\n",
    f"{TOP}/mon_data/": "",
    f"{TOP}/info/L3/cbm_mask": "fff\n",
    f"{TOP}/info/L3/min_cbm_bits": "2\n",
    f"{TOP}/info/L3/num_closids": "16\n",
    f"{TOP}/info/L3_MON/num_rmids": "32\n",
    f"{TOP}/info/MB/min_bandwidth": "10\n",
    f"{TOP}/info/MB/bandwidth_gran": "10\n",
    f"{TOP}/info/MB/num_closids": "8\n",
    f"{TOP}/info/last_cmd_status": "ok\n",
    f"{TOP}/BE/schemata": SCHEMATA,
    f"{TOP}/BE/tasks": "5\n",
}


def machine(folder: Path) -> Resctrl:
    return Resctrl(write_files(folder, FILES))


class Kernel(Root):
    """A kernel that answers writes, or the making of a group, with an error."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(write_files(folder, FILES).path)
        self.number = number

    def write(self, path: str, text: str) -> None:
        raise OSError(self.number, "words", path)

    def make_folder(self, path: str) -> None:
        raise OSError(self.number, "words", path)


def test_capabilities_are_read(tmp_path: Path) -> None:
    capabilities = machine(tmp_path).capabilities()
    assert not isinstance(capabilities, Unsupported)
    assert capabilities.caches == {"L3": Cache(0xFFF, 2, 16)}
    assert capabilities.bandwidth == Bandwidth(10, 10, 8)
    assert capabilities.domains == {"MB": (0, 1), "L3": (0, 1)}


def test_a_processor_with_only_caches_has_no_bandwidth_control(tmp_path: Path) -> None:
    files = {f"{TOP}/schemata": "L3:0=f\n", f"{TOP}/info/L3/cbm_mask": "f\n", f"{TOP}/info/L3/sparse_masks": "1\n"}
    capabilities = Resctrl(write_files(tmp_path, files)).capabilities()
    assert not isinstance(capabilities, Unsupported)
    assert (capabilities.caches, capabilities.bandwidth) == ({"L3": Cache(0xF, 1, 0, sparse=True)}, None)


@pytest.mark.parametrize(
    ("cpuinfo", "reason"),
    [("", "shares neither"), ("flags\t\t: fpu vme\n", "shares neither"),
     ("processor: 0\nflags\t\t: fpu cat_l3 mba\n", "not mounted at /sys/fs/resctrl; the processor has cat_l3, mba")],
)  # fmt: skip
def test_without_resctrl_the_reason_is_reported(tmp_path: Path, cpuinfo: str, reason: str) -> None:
    resctrl = Resctrl(write_files(tmp_path, {"proc/cpuinfo": cpuinfo}))
    capabilities = resctrl.capabilities()
    assert isinstance(capabilities, Unsupported) and reason in capabilities.reason
    results = [
        resctrl.create("BE"),
        resctrl.remove("BE"),
        *resctrl.add_tasks("BE", [1]),
        *resctrl.set_schemata("BE", {"MB": {0: 10}}),
    ]
    assert {(result.outcome, result.reason) for result in results} == {(Outcome.UNSUPPORTED, capabilities.reason)}


@pytest.mark.parametrize(
    ("mask", "word"),
    [(0b11, ""), (0xFFF, ""), (0b1, "fewer bits"), (0b1011, "gap"), (0x1FFF, "not within"), (0, "not within")],
)
def test_masks_are_checked(mask: int, word: str) -> None:
    complaint = Cache(0xFFF, 2, 16).complaint(mask)
    assert (word in complaint) if word else complaint == ""
    assert Cache(0xFFF, 2, 16, sparse=True).complaint(0b1011) == ""


def test_groups_are_created_listed_and_removed_idempotently(tmp_path: Path) -> None:
    resctrl = machine(tmp_path)
    assert resctrl.groups() == ["BE"]
    assert [resctrl.create("LS").outcome, resctrl.create("LS").outcome] == [Outcome.APPLIED, Outcome.UNCHANGED]
    assert resctrl.groups() == ["BE", "LS"]
    assert [resctrl.remove("LS").outcome, resctrl.remove("LS").outcome] == [Outcome.APPLIED, Outcome.UNCHANGED]


@pytest.mark.parametrize("name", ["a/b", "..", "info", "mon_groups"])
def test_an_invalid_group_name_is_refused(tmp_path: Path, name: str) -> None:
    resctrl = machine(tmp_path)
    results = [resctrl.create(name), resctrl.remove(name), *resctrl.add_tasks(name, [1])]
    assert {result.outcome for result in results} == {Outcome.REFUSED}


def test_the_root_group_is_neither_created_nor_removed(tmp_path: Path) -> None:
    (tmp_path / TOP).mkdir(parents=True)
    resctrl = Resctrl(Root(tmp_path))
    assert {resctrl.create("").outcome, resctrl.remove("").outcome} == {Outcome.REFUSED}
    assert (tmp_path / TOP).is_dir()


def test_shares_are_written_by_resource_and_read_back(tmp_path: Path) -> None:
    resctrl = machine(tmp_path)
    assert resctrl.schemata("BE") == {"MB": {0: 100, 1: 100}, "L3": {0: 0xFFF, 1: 0xFFF}}
    results = resctrl.set_schemata("BE", {"MB": {0: 100}, "L3": {0: 0xF, 1: 0xF}, "L2": {0: 1}})
    assert [result.outcome for result in results] == [Outcome.UNCHANGED, Outcome.APPLIED, Outcome.UNSUPPORTED]
    assert (tmp_path / TOP / "BE/schemata").read_text() == "L3:0=f;1=f\n"
    assert results[1].before == {0: 0xFFF, 1: 0xFFF}
    assert resctrl.set_schemata("none", {"MB": {0: 10}})[0].outcome is Outcome.GONE


def test_a_share_that_the_kernel_rounds_is_clamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resctrl = machine(tmp_path)
    monkeypatch.setattr(Root, "write", lambda self, path, text: None)
    (result,) = resctrl.set_schemata("BE", {"MB": {0: 15}})
    assert (result.outcome, result.reason) == (Outcome.CLAMPED, "the value reads back as MB:0=100;1=100")


def test_the_kernels_last_cmd_status_is_the_reason(tmp_path: Path) -> None:
    resctrl = Resctrl(Kernel(tmp_path, errno.EINVAL))
    assert resctrl.set_schemata("BE", {"MB": {0: 5}})[0].reason == "words"
    (tmp_path / TOP / "info/last_cmd_status").write_text("MB value 5 out of range [10,100]\n")
    (result,) = resctrl.set_schemata("BE", {"MB": {0: 5}})
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "words: MB value 5 out of range [10,100]")


def test_a_full_number_of_groups_is_an_error(tmp_path: Path) -> None:
    result = Resctrl(Kernel(tmp_path, errno.ENOSPC)).create("new")
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "the processor has no more groups")


def test_threads_are_added_separately_and_an_exited_thread_does_not_affect_others(tmp_path: Path) -> None:
    assert machine(tmp_path).tasks() == [1, 3]
    outcomes = [result.outcome for result in machine(tmp_path).add_tasks("BE", [5, 6])]
    assert outcomes == [Outcome.UNCHANGED, Outcome.APPLIED]
    assert machine(tmp_path / "other").add_tasks("none", [1])[0].outcome is Outcome.GONE
    (result,) = Resctrl(Kernel(tmp_path / "ended", errno.ESRCH)).add_tasks("BE", [7])
    assert (result.outcome, result.reason) == (Outcome.GONE, "words")


@pytest.mark.parametrize("text", ["L3:0=xyz", "MB:0", "MB:0=1=2", "MB:a=1"])
def test_an_invalid_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a line of schemata"):
        parse_schemata(text)


@given(
    st.sampled_from(["L3", "L2", "L3CODE", "MB", "SMBA"]),
    st.dictionaries(st.integers(0, 9), st.integers(0, 1 << 20), min_size=1),
)
def test_shares_survive_a_round_trip(resource: str, shares: dict[int, int]) -> None:
    line = format_line(resource, shares)
    assert line.endswith("\n")
    assert parse_schemata(f"   {line}") == {resource: shares}


def test_unknown_lines_are_ignored() -> None:
    assert parse_schemata("\nnothing\nL3:0=7ff;\n") == {"L3": {0: 0x7FF}}


def test_monitoring_groups_are_created_listed_and_removed(tmp_path: Path) -> None:
    for folder in ("mon_groups", "gold/mon_groups", "info"):
        (tmp_path / "sys/fs/resctrl" / folder).mkdir(parents=True)
    (tmp_path / "sys/fs/resctrl/schemata").write_text("L3:0=ff\n")
    resctrl = Resctrl(Root(tmp_path))
    assert [resctrl.create_monitor("pod").outcome, resctrl.create_monitor("pod").outcome] == [
        Outcome.APPLIED,
        Outcome.UNCHANGED,
    ]
    assert resctrl.create_monitor("pod", "gold").outcome is Outcome.APPLIED
    assert resctrl.monitors() == [("", "pod"), ("gold", "pod")]
    (tmp_path / "sys/fs/resctrl/gold/mon_groups/pod/tasks").touch()
    assert resctrl.add_to_monitor("pod", 7, "gold").outcome is Outcome.APPLIED
    assert (tmp_path / "sys/fs/resctrl/gold/mon_groups/pod/tasks").read_text() == "7"
    assert resctrl.add_to_monitor("gone", 7).outcome is Outcome.GONE
    assert resctrl.remove_monitor("pod").outcome is Outcome.APPLIED
    assert resctrl.remove_monitor("pod").outcome is Outcome.UNCHANGED
    for name, group in (("../x", ""), ("x", ".."), ("info", ""), ("a\0b", "")):
        assert resctrl.create_monitor(name, group).outcome is Outcome.REFUSED


@pytest.mark.parametrize("mask", ["-ff", "+f", "0xff", "f_f", "fgf"])
def test_an_impossible_mask_is_an_error(tmp_path: Path, mask: str) -> None:
    root = write_files(tmp_path, {f"{TOP}/schemata": "L3:0=f\n", f"{TOP}/info/L3/cbm_mask": f"{mask}\n"})
    with pytest.raises(ValueError, match="info/L3/cbm_mask is not a number"):
        Resctrl(root).capabilities()
