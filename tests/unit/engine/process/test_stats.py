"""Usage out of cgroup v1 and v2, and out of /proc."""

from pathlib import Path

import pytest

from nri.engine.process import stats as module
from nri.engine.process.stats import InterfaceStats, parse_interfaces, read_stats, stats_v1, stats_v2
from nri.host import Root


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")
    return folder


def test_cgroup_v1_is_read(tmp_path: Path) -> None:
    memory = write(
        tmp_path / "memory",
        memory__usage_in_bytes="1000",
        memory__memsw__usage_in_bytes="1200",
        memory__limit_in_bytes="5000",
        memory__memsw__limit_in_bytes="9223372036854771712",
        memory__stat="cache 1\ntotal_inactive_file 300\ntotal_rss 600\ntotal_pgfault 7\ntotal_pgmajfault 2",
    )
    cpu, pids = write(tmp_path / "cpuacct", cpuacct__usage="12345"), write(tmp_path / "pids", pids__current="4")
    stats = stats_v1({"memory": memory, "cpuacct": cpu, "pids": pids})
    assert (stats.cpu_usage_ns, stats.working_set_bytes, stats.rss_bytes, stats.swap_usage_bytes) == (
        12345,
        700,
        600,
        200,
    )
    assert (stats.memory_limit_bytes, stats.swap_limit_bytes, stats.processes) == (5000, None, 4)
    assert (stats.page_faults, stats.major_page_faults) == (7, 2)


def test_cgroup_v2_is_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "c",
        memory__current="1000",
        memory__max="max",
        memory__stat="anon 600\ninactive_file 2000\npgfault 7\npgmajfault 2",
        cpu__stat="usage_usec 12\nuser_usec 3",
        pids__current="4",
    )
    stats = stats_v2(folder)
    assert (stats.cpu_usage_ns, stats.memory_limit_bytes, stats.working_set_bytes, stats.rss_bytes) == (
        12_000,
        None,
        0,
        600,
    )
    assert (stats.swap_usage_bytes, stats.processes) == (None, 4)


def test_missing_values_are_none_and_never_zero(tmp_path: Path) -> None:
    assert stats_v2(tmp_path) == stats_v1({})
    assert stats_v2(tmp_path).memory_usage_bytes is None


def test_interfaces_are_read() -> None:
    text = "Inter-|\n face |\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:100 2 0 0 0 0 0 0 50 1 0 0\n"
    assert parse_interfaces(text) == [
        InterfaceStats("lo", 1, 3, 9, 11, 2, 4, 10, 12),
        InterfaceStats("eth0", 100, 0, 50, 0, 2, 0, 1, 0),
    ]


def test_an_interface_with_a_hostile_name_keeps_its_numbers() -> None:
    rows = "head\nhead\n  \udcff\x1b[2J: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    (interface,) = parse_interfaces(rows)
    assert (
        interface.name.isprintable() and interface.name.encode() and (interface.rx_bytes, interface.tx_bytes) == (1, 9)
    )


@pytest.mark.parametrize(
    ("cgroup", "usage"),
    [
        ("/kubepods.slice/nri-c.scope", 70),
        ("kubepods.slice:nri:c", 70),
        ("/kubepods.slice/nri-c.sc", 5),  # a process that has moved elsewhere has what it uses there
        ("", 5),
        ("a:b", 5),
    ],
)
@pytest.mark.parametrize("v2", [False, True])
def test_a_container_with_a_nested_first_process_has_the_usage_of_its_whole_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, v2: bool, cgroup: str, usage: int
) -> None:
    scope = "kubepods.slice/nri-c.scope"
    row = f"0::/{scope}/init.scope" if v2 else f"4:memory:/{scope}/init.scope\n0::/"
    (write(tmp_path / "proc/7") / "cgroup").write_text(f"{row}\n")
    monkeypatch.setattr(module, "MACHINE", Root(tmp_path))
    top, name = tmp_path / "cgroup" / ("" if v2 else "memory"), "memory__current" if v2 else "memory__usage_in_bytes"
    write(top / scope, **{name: "70"})
    write(top / scope / "init.scope", **{name: "5"})
    assert read_stats(7, tmp_path / "cgroup", cgroup).memory_usage_bytes == usage


def test_a_missing_process_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        read_stats(1 << 30)
