"""containerd's configuration: settings with file and line, and remarks on keys without effect."""

from __future__ import annotations

import pytest

from nri.config.runtimes import containerd
from nri.config.runtimes.containerd import parse_release
from nri.config.runtimes.reading import Kind, Reading
from tests.support.memory_tree import MemoryTree

NRI = '[plugins."io.containerd.nri.v1.nri"]\n'
CONFIG = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/nri.toml"
IMPORTS = 'imports = ["conf.d/*.toml"]\n'
TABLE = 'plugins."io.containerd.nri.v1.nri"'


def read(release: str, main: str, drop_in: str = "") -> Reading:
    files = {CONFIG: main.encode()} | ({DROP_IN: drop_in.encode()} if drop_in else {})
    return containerd.read_tree(MemoryTree(files), release)


def kinds(reading: Reading) -> list[Kind]:
    return [remark.kind for remark in reading.remarks]


@pytest.mark.parametrize(("version", "release"), [(2, "1.7.24"), (3, "2.1.9"), (4, "2.4.2"), (4, "")])
def test_settings_have_file_and_line(version: int, release: str) -> None:
    text = f'version = {version}\n{NRI}disable = false\nsocket_path = "/run/x.sock"\nplugin_request_timeout = "3s"\n'
    reading = read(release, text)
    assert reading.nri is not None
    assert (reading.nri.enabled, reading.nri.socket_path, reading.nri.request_timeout_s) == (True, "/run/x.sock", 3.0)
    assert reading.nri.origin["socket_path"] == f"{CONFIG}:4: {TABLE}.socket_path"
    assert reading.failure is None and reading.obstacle is None


def test_a_machine_without_containerd_has_no_settings() -> None:
    assert containerd.read_tree(MemoryTree({})) == ("containerd", None, [])


@pytest.mark.parametrize(("release", "is_on"), [("1.7.24", False), ("2.1.9", True)])
def test_without_a_file_the_release_decides(release: str, is_on: bool) -> None:
    nri = containerd.read_tree(MemoryTree({}), release).nri
    assert nri is not None and nri.enabled is is_on


def test_read_uses_the_files_below_a_root(put) -> None:
    reading = containerd.read(put({CONFIG: f"version = 2\n{NRI}disable = false\n"}), "1.7.24")
    assert reading.nri is not None and reading.nri.enabled is True


@pytest.mark.parametrize(
    ("text", "is_on", "kind", "details"),
    [
        ("version = 2\n", None, Kind.RELEASE_DECIDES, {"off": "1.7", "on": "2.0 and newer"}),
        (f"{NRI}disable = false\n", None, Kind.RELEASE_DECIDES, {"off": "1.7", "on": "2.0 and newer"}),
        ("version = 3\n", True, Kind.RELEASES_REFUSE, {"releases": "1.7"}),
        (f"version = 4\n{NRI}disable = true\n", False, Kind.RELEASES_REFUSE, {"releases": "1.7, 2.0, 2.1, 2.2"}),
        ('disabled_plugins = ["cri"]\n', None, Kind.NEVER_RUNS, {"fix": 'remove "cri" from disabled_plugins'}),
        ("version = 5\n", None, Kind.UNKNOWN_VERSION, {"version": 5, "newest": 4}),
        (f'version = 2\n{NRI}disable = "false"\n', None, Kind.WRONG_TYPE, {"type": bool, "value": "false"}),
    ],
)
def test_without_a_release_all_releases_are_judged(text: str, is_on: bool | None, kind: Kind, details: dict) -> None:
    reading = read("", text)
    assert reading.nri is not None and reading.nri.enabled is is_on
    remark = next(remark for remark in reading.remarks if remark.kind is kind)
    for name, value in details.items():
        assert str(remark.details[name]).startswith(str(value)) if name == "fix" else remark.details[name] == value


@pytest.mark.parametrize(
    ("release", "text", "kind", "details"),
    [
        (
            "2.1.9",
            f'version = 3\n{NRI}plugin_request_timout = "2s"\n',
            Kind.UNKNOWN_KEY,
            {"key": "plugin_request_timout", "suggestion": 'did you mean "plugin_request_timeout"?'},
        ),
        (
            "2.1.9",
            'version = 3\n[plugins."io.containerd.grpc.v1.cri"]\nplugin_path = "/p"\n',
            Kind.MISPLACED,
            {"key": "plugin_path", "table": TABLE},
        ),
        (
            "2.1.9",
            'version = 3\n[plugins."io.containerd.grpc.v1.nri"]\ndisable = false\n',
            Kind.UNKNOWN_TABLE,
            {"table": 'plugins."io.containerd.grpc.v1.nri"', "right": TABLE},
        ),
        ("2.1.9", "[plugins.nri]\ndisable = true\n", Kind.OLD_TABLE, {}),
        ("1.7.24", f"{NRI}disable = false\n", Kind.UNVERSIONED, {}),
        ("1.7.24", f"version = 2\n{NRI}Disable = false\n", Kind.OTHER_CASE, {"key": "Disable", "right": "disable"}),
        (
            "2.1.9",
            f"version = 3\n{NRI}[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\n",
            Kind.NO_VALIDATOR,
            {"releases": "2.1"},
        ),
    ],
)
def test_keys_without_effect_are_reported(release: str, text: str, kind: Kind, details: dict[str, object]) -> None:
    reading = read(release, text)
    assert [(remark.kind, remark.details) for remark in reading.remarks] == [(kind, details)]
    assert reading.failure is None


@pytest.mark.parametrize("release", ["2.1.9", "2.4.2"])
def test_in_2_keys_match_in_any_case(release: str) -> None:
    reading = read(release, f"version = 3\n{NRI}Disable = true\n")
    assert reading.nri is not None and (reading.nri.enabled, reading.remarks) == (False, [])


def test_in_1_7_settings_that_a_later_table_removes_are_reported() -> None:
    main = f'version = 2\n{IMPORTS}{NRI}disable = true\nplugin_path = "/a"\n'
    reading = read("1.7.24", main, f"{NRI}disable = false\n")
    assert reading.nri is not None and (reading.nri.enabled, reading.nri.plugin_path) == (True, "/opt/nri/plugins")
    assert reading.remarks == [(Kind.REPLACED, f"{DROP_IN}:1: {TABLE}", {"first": CONFIG, "lost": "plugin_path"})]


def test_a_drop_in_that_is_not_imported_is_reported() -> None:
    assert kinds(read("2.4.2", "version = 3\n", f"version = 3\n{NRI}disable = false\n")) == [Kind.NOT_IMPORTED]


@pytest.mark.parametrize(
    ("output", "release"),
    [
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1", "1.7.24~ds1"),
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown ", "2.1.9+unknown"),
        ("containerd github.com/k3s-io/containerd v2.1.5-k3s1 abcdef", "2.1.5-k3s1"),
        ("nonsense", ""),
    ],
)
def test_the_release_is_read_from_the_programs_output(output: str, release: str) -> None:
    assert parse_release(output) == release
