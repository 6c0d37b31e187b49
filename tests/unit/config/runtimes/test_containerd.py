"""containerd's configuration as containerd reads it: imports, releases, and the keys that have no effect."""

from __future__ import annotations

import pytest

from nri.config.runtimes import containerd
from nri.config.runtimes.containerd import on_by_default, parse_version
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri

NRI_TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'
CONFIG = "/etc/containerd/config.toml"


def read(root: str, version: str = "") -> tuple[RuntimeNri, list[Remark]]:
    reading = containerd.read(root, version)
    assert reading.runtime == "containerd"
    assert reading.nri is not None
    return reading.nri, reading.remarks


@pytest.mark.parametrize("version", [2, 3])
def test_containerd_settings_are_read_with_their_places(put, version: int) -> None:
    text = (
        f'version = {version}\n{NRI_TABLE}disable = false\nsocket_path = "/run/x.sock"\nplugin_request_timeout = "3s"\n'
    )
    nri, found = read(put({CONFIG: text}))
    assert found == []
    assert (nri.enabled, nri.socket_path, nri.request_timeout_s) == (True, "/run/x.sock", 3.0)
    assert nri.origin["socket_path"] == f'{CONFIG}:4: plugins."io.containerd.nri.v1.nri".socket_path'


def test_without_a_containerd_there_is_nothing_to_say(put) -> None:
    assert containerd.read(put()) == ("containerd", None, [])


@pytest.mark.parametrize(("version", "enabled"), [("1.7.24", False), ("2.1.9", True)])
def test_without_a_file_the_version_decides_whether_nri_is_on(put, version: str, enabled: bool) -> None:
    nri, _ = read(put(), version)
    assert nri.enabled is enabled


def test_a_version_3_file_without_an_nri_table_means_on(put) -> None:
    nri, found = read(put({CONFIG: "version = 3\n"}))
    assert nri.enabled is True
    assert found == []


def test_a_version_2_file_without_an_nri_table_depends_on_the_release(put) -> None:
    nri, found = read(put({CONFIG: "version = 2\n"}))
    assert nri.enabled is None
    assert found == [(Kind.RELEASE_DECIDES, CONFIG, {})]


def test_a_switch_of_another_type_is_no_file_that_leaves_it_open(put) -> None:
    nri, found = read(put({CONFIG: f'version = 2\n{NRI_TABLE}disable = "false"\n'}))
    assert nri.enabled is None
    assert [kind for kind, *_ in found] == [Kind.WRONG_TYPE]


def test_an_imported_file_wins_key_by_key_in_2(put) -> None:
    root = put(
        {
            CONFIG: f'version = 3\nimports = ["conf.d/*.toml"]\n{NRI_TABLE}disable = true\nplugin_path = "/a"\n',
            "/etc/containerd/conf.d/nri.toml": f'version = 3\n{NRI_TABLE}disable = false\nsocket_path = "/s"\n',
        }
    )
    nri, found = read(root, "2.1.9")
    assert (nri.enabled, nri.plugin_path, nri.socket_path) == (True, "/a", "/s")
    assert found == []


def test_an_imported_table_replaces_the_whole_table_in_1_7(put) -> None:
    root = put(
        {
            CONFIG: f'version = 2\nimports = ["conf.d/*.toml"]\n{NRI_TABLE}disable = true\nplugin_path = "/a"\n',
            "/etc/containerd/conf.d/nri.toml": f"version = 2\n{NRI_TABLE}disable = false\n",
        }
    )
    nri, found = read(root, "1.7.24")
    assert (nri.enabled, nri.plugin_path) == (True, "/opt/nri/plugins")
    where = '/etc/containerd/conf.d/nri.toml:2: plugins."io.containerd.nri.v1.nri"'
    assert found == [(Kind.REPLACED, where, {"first": CONFIG, "lost": "plugin_path"})]


def test_imports_of_imports_and_circles_are_followed_once(put) -> None:
    root = put(
        {
            CONFIG: 'version = 3\nimports = ["/etc/containerd/a.toml"]\n',
            "/etc/containerd/a.toml": 'version = 3\nimports = ["config.toml", "b.toml"]\n',
            "/etc/containerd/b.toml": f'version = 3\n{NRI_TABLE}plugin_path = "/b"\n',
        }
    )
    nri, found = read(root)
    assert (nri.plugin_path, found) == ("/b", [])


def test_a_missing_import_keeps_containerd_from_starting(put) -> None:
    _, found = read(put({CONFIG: 'version = 3\nimports = ["/etc/containerd/gone.toml"]\n'}))
    assert found == [(Kind.MISSING_IMPORT, f"{CONFIG}:2: imports", {"path": "/etc/containerd/gone.toml"})]


def test_a_drop_in_that_nothing_imports_is_found(put) -> None:
    root = put(
        {CONFIG: "version = 3\n", "/etc/containerd/conf.d/nri.toml": f"version = 3\n{NRI_TABLE}disable = false\n"}
    )
    _, found = read(root)
    assert found == [(Kind.NOT_IMPORTED, "/etc/containerd/conf.d/nri.toml", {})]


def test_without_a_version_line_the_tables_name_depends_on_the_release(put) -> None:
    today, old = f'{NRI_TABLE}socket_path = "/s"\n', '[plugins.nri]\nsocket_path = "/s"\n'
    for text, version, socket_path in ((today, "2.1.9", "/s"), (old, "1.7.24", "/s")):
        nri, found = read(put({CONFIG: text}), version)
        assert (nri.socket_path, found) == (socket_path, [])
    for text, version, kind in ((today, "1.7.24", Kind.UNVERSIONED), (old, "2.1.9", Kind.OLD_TABLE)):
        nri, found = read(put({CONFIG: text}), version)
        assert (nri.socket_path, found[0].kind) == ("/var/run/nri/nri.sock", kind)


def test_a_disabled_plugin_is_off_whatever_its_table_says(put) -> None:
    text = f'version = 3\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n{NRI_TABLE}disable = false\n'
    nri, _ = read(put({CONFIG: text}))
    assert nri.enabled is False
    assert nri.origin["disable"] == f"{CONFIG}:2: disabled_plugins"


def test_required_plugins_count_only_with_the_validator_enabled(put) -> None:
    table = (
        f"version = 3\n{NRI_TABLE}[plugins.'io.containerd.nri.v1.nri'.default_validator]\nrequired_plugins = ['a']\n"
    )
    nri, _ = read(put({CONFIG: table}))
    assert nri.required == ()
    nri, _ = read(put({CONFIG: f"{table}enable = true\n"}))
    assert nri.required == ("a",)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1", "1.7.24"),
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown ", "2.1.9"),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 abcdef", "2.4.2"),
        ("nonsense", ""),
    ],
)
def test_versions_of_distributions_are_understood(text: str, version: str) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("version", "on"), [("1.7.24", False), ("2.0.0", True), ("", None)])
def test_releases_differ_in_their_default(version: str, on: bool | None) -> None:
    assert on_by_default(version) is on


@pytest.mark.parametrize(
    ("text", "kind", "details"),
    [
        (
            f'{NRI_TABLE}plugin_request_timout = "2s"',
            Kind.UNKNOWN_KEY,
            {"key": "plugin_request_timout", "suggestion": 'did you mean "plugin_request_timeout"?'},
        ),
        (
            '[plugins."io.containerd.grpc.v1.cri"]\nplugin_path = "/p"',
            Kind.MISPLACED,
            {"key": "plugin_path", "table": 'plugins."io.containerd.nri.v1.nri"'},
        ),
        (
            "[plugins.nri]\ndisable = false",
            Kind.UNKNOWN_TABLE,
            {"table": "plugins.nri", "right": 'plugins."io.containerd.nri.v1.nri"'},
        ),
        (f'{NRI_TABLE}disable = "false"', Kind.WRONG_TYPE, {"type": bool, "value": "false"}),
    ],
)
def test_what_containerd_would_ignore_is_remarked_on_and_has_no_effect(put, text: str, kind: Kind, details) -> None:
    nri, found = read(put({CONFIG: f"version = 3\n{text}\n"}))
    assert [(remark.kind, remark.details) for remark in found] == [(kind, details)]
    assert (nri.enabled, nri.plugin_path, nri.request_timeout_s) == (True, "/opt/nri/plugins", 2.0)


def test_a_main_file_that_cannot_be_parsed_leaves_the_settings_to_the_release(put) -> None:
    nri, found = read(put({CONFIG: "version = \n"}), "1.7.24")
    assert (nri.enabled, [remark.kind for remark in found]) == (False, [Kind.INVALID])
