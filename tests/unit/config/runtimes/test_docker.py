"""Docker Engine's daemon.json, with the verdicts of `dockerd --validate` of release 29."""

from __future__ import annotations

import pytest

from nri.config.runtimes import docker
from nri.config.runtimes.change import Timeouts, apply, plan
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.reading import Reading
from nri.config.runtimes.remark_texts import texts_of
from nri.errors import ConfigError

FILE = docker.PATH


def read(root: str) -> Reading:
    return docker.read_tree(DiskTree(root))


@pytest.mark.parametrize(
    ("text", "enabled", "socket"),
    [
        ("", False, ""),
        ("{}", False, ""),
        ('{"nri-opts": null}', False, ""),
        ('{"nri-opts": {}}', False, ""),
        ('{"nri-opts": {"enable": true}}', True, ""),
        ('{"nri-opts": {"enable": null}}', False, ""),
        ('{"nri-opts": {"enable": true, "socket-path": ""}}', True, ""),
        ('{"nri-opts": {"enable": true, "socket-path": "/run/d.sock"}}', True, "/run/d.sock"),
        ('{"nri-opts": {"Enable": true, "SOCKET-PATH": "/run/d.sock"}}', True, "/run/d.sock"),
        ('\ufeff{"nri-opts": {"enable": true}}', True, ""),
    ],
)
def test_settings_are_read_as_dockerd_reads_them(put, text, enabled, socket) -> None:
    nri = read(put({FILE: text})).nri
    assert nri is not None
    assert (nri.enabled, nri.connections, nri.socket_path) == (enabled, bool(socket), socket)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"nri-opts": {"enabled": true}}', ":1: nri-opts.enabled", 'unknown key "enabled"'),
        ('{"nri-opts": {"enable": "true"}}', ":1: nri-opts.enable", "must be true or false, not 'true'"),
        ('{"nri-opts": {"socket-path": 5}}', ":1: nri-opts.socket-path", "must be a quoted string, not 5"),
        ('{"nri-opts": []}', ":1: nri-opts", "must be a table, not []"),
        ('{"nri-opts": true}', ":1: nri-opts", "must be a table, not True"),
        ('{"NRI-opts": {"enable": true}}', ":1: NRI-opts", 'unknown key "NRI-opts"'),
        ('{"nri": {"enable": true}}', ":1: nri", 'unknown key "nri"'),
        ('{"socket-path": "/run/d.sock"}', ":1: socket-path", 'unknown key "socket-path"'),
        ('{"nri-opts": {"enable": true},}', ":1", "not valid JSON"),
        ("[]", "", "not a mapping of keys"),
    ],
)
def test_a_file_with_which_dockerd_does_not_start_is_a_problem(put, text, where, what) -> None:
    reading = read(put({FILE: text}))
    assert reading.failure is not None
    assert reading.failure.where == FILE + where
    assert texts_of("docker", reading.failure).what.startswith(what)
    assert reading.nri is None or reading.nri.enabled is None


def test_without_a_file_there_is_no_docker(put) -> None:
    assert read(put()) == ("docker", None, [])


def test_config_manager_turns_nri_on_with_a_socket_and_keeps_the_other_keys(put) -> None:
    root = put({FILE: '{\n  "live-restore": true\n}\n'})
    change = plan(root, "dockerd", Timeouts())
    apply(root, change, Timeouts())
    nri = read(root).nri
    assert nri is not None
    assert (nri.enabled, nri.socket_path) == (True, docker.SOCKET)
    assert '  "live-restore": true,' in change.after
    assert plan(root, "dockerd", Timeouts()).after == change.after


def test_config_manager_keeps_a_socket_that_the_operator_chose(put) -> None:
    root = put({FILE: '{"nri-opts": {"socket-path": "/run/mine.sock"}}'})
    apply(root, plan(root, "dockerd", Timeouts()), Timeouts())
    nri = read(root).nri
    assert nri is not None
    assert (nri.enabled, nri.socket_path) == (True, "/run/mine.sock")


def test_config_manager_refuses_timeouts_which_docker_does_not_have(put) -> None:
    with pytest.raises(ConfigError, match="Docker Engine has no setting for timeouts"):
        plan(put({FILE: "{}"}), "dockerd", Timeouts("10s", "5s"))


def test_a_key_given_twice_counts_as_go_reads_it_and_tables_are_merged(put) -> None:
    text = '{"nri-opts": {"enable": false, "enable": true}, "nri-opts": {"socket-path": "/run/d.sock"}}'
    nri = read(put({FILE: text})).nri
    assert nri is not None
    assert (nri.enabled, nri.socket_path) == (True, "/run/d.sock")


def test_keys_of_a_table_count_as_keys_of_the_file_unless_dockerd_has_the_table(put) -> None:
    reading = read(
        put({FILE: '{"proxies": {"http-proxy": "x", "plugin-path": "/p"}, "log-opts": {"plugin-path": "/p"}}'})
    )
    assert reading.failure is not None
    assert reading.failure.where == f"{FILE}:1: proxies.plugin-path"


def test_a_key_that_a_later_release_may_have_is_a_warning(put) -> None:
    reading = read(put({FILE: '{"max-upload-attempts": 5}'}))
    assert [texts_of("docker", remark).level for remark in reading.remarks] == ["warning"]
    assert reading.nri is not None and reading.nri.enabled is False


def test_json_that_is_nested_too_deeply_is_a_problem(put) -> None:
    assert read(put({FILE: '{"a": ' + "[" * 500 + "]" * 500 + "}"})).failure is not None
