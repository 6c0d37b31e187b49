"""Docker Engine's daemon.json, with the verdicts of `dockerd --validate` of release 29."""

from __future__ import annotations

import pytest

from nri.config.runtimes import docker
from nri.config.runtimes.change import Timeouts, apply, plan
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.reading import Reading
from nri.config.runtimes.remark_texts import texts_of
from nri.errors import ConfigError, NriError

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
def test_settings_are_read_like_by_dockerd(put, text, enabled, socket) -> None:
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
        ("[]", "", "not a mapping of keys to values"),
    ],
)
def test_a_file_that_stops_dockerd_is_a_problem(put, text, where, what) -> None:
    reading = read(put({FILE: text}))
    assert reading.failure is not None
    assert reading.failure.where == FILE + where
    assert texts_of("docker", reading.failure).what.startswith(what)
    assert reading.nri is None or reading.nri.enabled is None


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"debug": "true"}', ":1: debug", "must be true or false, not 'true'"),
        ('{"mtu": "1500"}', ":1: mtu", "must be a whole number, not '1500'"),
        ('{"mtu": 1500.0}', ":1: mtu", "must be a whole number, not 1500.0"),
        ('{"mtu": -1}', ":1: mtu", "-1 is negative"),
        ('{"network-diagnostic-port": 65536}', ":1: network-diagnostic-port", "65536 is above 65535"),
        (f'{{"dns-search": ["{"a" * 255}"]}}', ":1: dns-search[0]", "is not a domain"),
        ('{"log-opts": {"max-size": "1m", "max-file": 3}}', ":1: log-opts.max-file", "must be a quoted string, not 3"),
        ('{"features": {"buildkit": "true"}}', ":1: features.buildkit", "must be true or false"),
        ('{"hosts": "fd://"}', ":1: hosts", "must be a list of strings, not 'fd://'"),
        ('{"dns": [8]}', ":1: dns[0]", "must be a quoted string, not 8"),
        ('{"dns": ["x"]}', ":1: dns[0]", '"x" is not an address'),
        ('{"hosts": ["http://a"]}', ":1: hosts[0]", '"http://a" is not an address such as'),
        ('{"log-level": "loud"}', ":1: log-level", "must be one of panic, fatal"),
        ('{"registry-mirrors": ["mirror.example.com"]}', ":1: registry-mirrors[0]", "is not a URL such as"),
        ('{"exec-opts": ["isolation=x"]}', ":1: exec-opts[0]", "is not native.cgroupdriver=DRIVER"),
        ('{"fixed-cidr-v6": "ffff:1::/80"}', ":1: fixed-cidr-v6", "is not an IPv6 address range"),
        ('{"labels": ["a=1", "a=2"]}', ":1: labels[1]", '"a" has two values'),
        ('{"default-shm-size": 5}', ":1: default-shm-size", "must be a quoted string, not 5"),
        ('{"default-shm-size": "big"}', ":1: default-shm-size", "is not a size such as 64m"),
        ('{"default-address-pools": [{"base": "10", "size": 24}]}', ":1: default-address-pools[0]", "the base '10' is"),
        ('{"runtimes": {"x": {"path": 5}}}', ":1: runtimes.x.path", "must be a quoted string, not 5"),
        ('{"default-ulimits": {"nofile": {"Hard": "9"}}}', ":1: default-ulimits.nofile.Hard", "must be a whole number"),
    ],
)
def test_a_value_with_which_dockerd_does_not_start_is_a_problem(put, text, where, what) -> None:
    failure = read(put({FILE: text})).failure
    assert failure is not None
    sentence = texts_of("docker", failure).what
    assert failure.where == FILE + where
    assert what in sentence and sentence.endswith("dockerd does not start with it")


@pytest.mark.parametrize(
    "text",
    [
        '{"debug": null, "mtu": null, "log-opts": {"a": null}}',
        '{"log-level": "WARN", "log-format": "", "default-ipc-mode": "shareable"}',
        '{"hosts": ["fd://", "tcp://0.0.0.0:2375", ":2375", ""], "labels": ["a=1", "a=1", "b="]}',
        '{"dns": ["::1"], "dns-search": [".", "a.example.com"], "default-gateway": ""}',
        '{"default-shm-size": "1.5g", "fixed-cidr-v6": "fd00::1/64", "bridge-accept-fwmark": "0x1/0xff"}',
        '{"default-address-pools": [{"Base": "10.0.0.0/8", "size": 24}, {}], "userland-proxy-path": "/p"}',
        '{"userland-proxy": false, "userland-proxy-path": "p"}',
        '{"builder": {"gc": {"enabled": true}}, "runtimes": {"x": {"runtimeArgs": ["a"]}}}',
    ],
)
def test_values_that_dockerd_accepts_are_not_remarked_on(put, text) -> None:
    assert read(put({FILE: text})).remarks == []


UNIT = "/usr/lib/systemd/system/docker.service"
ADMIN = "/etc/systemd/system/docker.service.d/10-hosts.conf"
START = "[Service]\nExecStart=/usr/bin/dockerd -H fd:// \\\n  --containerd=/run/containerd/containerd.sock -D\n"


@pytest.mark.parametrize(
    ("text", "key", "flag"),
    [
        ('{"hosts": ["tcp://127.0.0.1:2375"]}', "hosts", "-H"),
        ('{"containerd": "/x"}', "containerd", "--containerd"),
        ('{"a": {"debug": true}}', "a.debug", "-D"),
        ('{"hosts": null}', "hosts", "-H"),
    ],
)
def test_an_option_in_both_the_unit_and_the_file_is_a_problem(put, text, key, flag) -> None:
    failure = read(put({FILE: text, UNIT: START})).failure
    assert failure is not None and failure.where == f"{FILE}:1: {key}"
    assert texts_of("docker", failure).what == f"{flag} in {UNIT} is the same option: dockerd does not start with it"


def test_a_drop_in_replaces_the_command_line_of_the_unit(put) -> None:
    files = {FILE: '{"hosts": ["fd://"], "mtu": 1400}', UNIT: START}
    assert read(put({**files, ADMIN: "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd\n"})).failure is None


def test_a_flag_in_a_drop_in_conflicts_with_its_key(put) -> None:
    drop_in = "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd --nri-opts enable=true\n"
    failure = read(put({FILE: '{"nri-opts": {"enable": true}}', UNIT: START, ADMIN: drop_in})).failure
    assert failure is not None
    assert texts_of("docker", failure).what.startswith(f"--nri-opts in {ADMIN} is the same option")


def test_config_manager_writes_nothing_while_dockerd_would_not_start(put) -> None:
    root = put({FILE: '{"log-opts": {"max-file": 3}}'})
    with pytest.raises(
        NriError, match=r"nothing was written, because the runtime would not start: .*log-opts.max-file"
    ):
        apply(root, plan(root, "dockerd", Timeouts()), Timeouts())


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


def test_config_manager_refuses_timeouts_for_docker(put) -> None:
    with pytest.raises(ConfigError, match="Docker Engine has no setting for timeouts"):
        plan(put({FILE: "{}"}), "dockerd", Timeouts("10s", "5s"))


def test_duplicate_keys_count_like_in_go_and_tables_are_merged(put) -> None:
    text = '{"nri-opts": {"enable": false, "enable": true}, "nri-opts": {"socket-path": "/run/d.sock"}}'
    nri = read(put({FILE: text})).nri
    assert nri is not None
    assert (nri.enabled, nri.socket_path) == (True, "/run/d.sock")


def test_keys_of_an_unknown_table_count_as_keys_of_the_file(put) -> None:
    reading = read(
        put({FILE: '{"proxies": {"http-proxy": "x", "plugin-path": "/p"}, "log-opts": {"plugin-path": "/p"}}'})
    )
    assert reading.failure is not None
    assert reading.failure.where == f"{FILE}:1: proxies.plugin-path"


def test_a_key_that_a_later_release_may_have_is_a_warning(put) -> None:
    reading = read(put({FILE: '{"max-upload-attempts": 5}'}))
    assert [texts_of("docker", remark).level for remark in reading.remarks] == ["warning"]
    assert reading.nri is not None and reading.nri.enabled is False


def test_deeply_nested_json_is_a_problem(put) -> None:
    assert read(put({FILE: '{"a": ' + "[" * 500 + "]" * 500 + "}"})).failure is not None
