"""`nri doctor` on copies of /etc: what the three runtimes' configurations say, and what contradicts what."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.cli.checks import containerd, crio, isulad, plugins, runtimes, sockets
from nri.cli.checks.containerd import parse_version
from nri.cli.checks.findings import Finding, RuntimeNri, inside
from tests.support.needs import need_root

NRI_TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'
CONFIG = "/etc/containerd/config.toml"


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., str]:
    """Write files below the root; gives the root."""

    def write(files: dict[str, str] | None = None, **more: str) -> str:
        for path, text in {**(files or {}), **more}.items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return str(tmp_path)

    return write


def lines(findings: list[Finding]) -> list[str]:
    return [f"{finding.level}: {finding.where}: {finding.what}" for finding in findings]


def read_containerd(root: str, version: str = "") -> tuple[RuntimeNri | None, list[str]]:
    findings: list[Finding] = []
    return containerd.check(root, version, findings), lines(findings)


def read_crio(root: str) -> tuple[RuntimeNri | None, list[str]]:
    findings: list[Finding] = []
    return crio.check(root, findings), lines(findings)


def read_isulad(root: str) -> tuple[RuntimeNri | None, list[str]]:
    findings: list[Finding] = []
    return isulad.check(root, findings), lines(findings)


# -- containerd -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_containerd_settings_are_read_with_their_places(put, version: int) -> None:
    text = (
        f'version = {version}\n{NRI_TABLE}disable = false\nsocket_path = "/run/x.sock"\nplugin_request_timeout = "3s"\n'
    )
    nri, found = read_containerd(put({CONFIG: text}))
    assert nri is not None
    assert found == []
    assert (nri.enabled, nri.socket_path, nri.request_timeout_s) == (True, "/run/x.sock", 3.0)
    assert nri.origin["socket_path"] == f'{CONFIG}:4: plugins."io.containerd.nri.v1.nri".socket_path'


def test_without_a_containerd_there_is_nothing_to_say(put) -> None:
    assert read_containerd(put()) == (None, [])


@pytest.mark.parametrize(("version", "enabled"), [("1.7.24", False), ("2.1.9", True)])
def test_without_a_file_the_version_decides_whether_nri_is_on(put, version: str, enabled: bool) -> None:
    nri, _ = read_containerd(put(), version)
    assert nri is not None
    assert nri.enabled is enabled


def test_a_version_3_file_without_an_nri_table_means_on(put) -> None:
    nri, found = read_containerd(put({CONFIG: "version = 3\n"}))
    assert nri is not None
    assert nri.enabled is True
    assert found == []


def test_a_version_2_file_without_an_nri_table_depends_on_the_release(put) -> None:
    nri, found = read_containerd(put({CONFIG: "version = 2\n"}))
    assert nri is not None
    assert nri.enabled is None
    assert "off by default in containerd 1.7, on since 2.0" in found[0]


def test_an_imported_file_wins_key_by_key_in_2(put) -> None:
    root = put(
        {
            CONFIG: f'version = 3\nimports = ["conf.d/*.toml"]\n{NRI_TABLE}disable = true\nplugin_path = "/a"\n',
            "/etc/containerd/conf.d/nri.toml": f'version = 3\n{NRI_TABLE}disable = false\nsocket_path = "/s"\n',
        }
    )
    nri, found = read_containerd(root, "2.1.9")
    assert nri is not None
    assert (nri.enabled, nri.plugin_path, nri.socket_path) == (True, "/a", "/s")
    assert found == []


def test_an_imported_table_replaces_the_whole_table_in_1_7(put) -> None:
    root = put(
        {
            CONFIG: f'version = 2\nimports = ["conf.d/*.toml"]\n{NRI_TABLE}disable = true\nplugin_path = "/a"\n',
            "/etc/containerd/conf.d/nri.toml": f"version = 2\n{NRI_TABLE}disable = false\n",
        }
    )
    nri, found = read_containerd(root, "1.7.24")
    assert nri is not None
    assert (nri.enabled, nri.plugin_path) == (True, "/opt/nri/plugins")
    assert any(
        "replace the one in /etc/containerd/config.toml: plugin_path go back to their defaults" in line
        for line in found
    )


def test_imports_of_imports_and_circles_are_followed_once(put) -> None:
    root = put(
        {
            CONFIG: 'version = 3\nimports = ["/etc/containerd/a.toml"]\n',
            "/etc/containerd/a.toml": 'version = 3\nimports = ["config.toml", "b.toml"]\n',
            "/etc/containerd/b.toml": f'version = 3\n{NRI_TABLE}plugin_path = "/b"\n',
        }
    )
    nri, found = read_containerd(root)
    assert nri is not None
    assert (nri.plugin_path, found) == ("/b", [])


def test_a_missing_import_keeps_containerd_from_starting(put) -> None:
    _, found = read_containerd(put({CONFIG: 'version = 3\nimports = ["/etc/containerd/gone.toml"]\n'}))
    assert found == [f'problem: {CONFIG}:2: imports: the imported file "/etc/containerd/gone.toml" does not exist']


def test_a_drop_in_that_nothing_imports_is_found(put) -> None:
    root = put(
        {CONFIG: "version = 3\n", "/etc/containerd/conf.d/nri.toml": f"version = 3\n{NRI_TABLE}disable = false\n"}
    )
    _, found = read_containerd(root)
    assert found == ["problem: /etc/containerd/conf.d/nri.toml: it configures NRI, but nothing imports it"]


def test_without_a_version_line_the_tables_name_depends_on_the_release(put) -> None:
    today, old = f'{NRI_TABLE}socket_path = "/s"\n', '[plugins.nri]\nsocket_path = "/s"\n'
    for text, version, socket_path in ((today, "2.1.9", "/s"), (old, "1.7.24", "/s")):
        nri, found = read_containerd(put({CONFIG: text}), version)
        assert nri is not None
        assert (nri.socket_path, found) == (socket_path, [])
    for text, version, problem in (
        (today, "1.7.24", "does not know this table"),
        (old, "2.1.9", "containerd 2.x does not know"),
    ):
        nri, found = read_containerd(put({CONFIG: text}), version)
        assert nri is not None
        assert nri.socket_path == "/var/run/nri/nri.sock"
        assert problem in found[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f'{NRI_TABLE}plugin_request_timout = "2s"', 'unknown key "plugin_request_timout"; containerd ignores it'),
        (
            '[plugins]\nplugin_request_timeout = "5s"',
            '"plugin_request_timeout" is at the wrong level and has no effect',
        ),
        ('[plugins."io.containerd.grpc.v1.cri"]\nplugin_path = "/p"', '"plugin_path" is at the wrong level'),
        ('[plugins."io.containerd.grpc.v1.cri".nri]\ndisable = false', "containerd has no table"),
        ("[plugins.nri]\ndisable = false", 'containerd has no table "plugins.nri"'),
        ('[plugins."io.containerd.nri.v1"]\ndisable = false', "containerd has no table"),
        (f'{NRI_TABLE}disable = "false"', "must be true or false, not 'false'"),
        (f"{NRI_TABLE}plugin_request_timeout = 5", "must be text in quotes, not 5"),
        (f'{NRI_TABLE}plugin_request_timeout = "5"', '"5" is not a duration'),
        (f"{NRI_TABLE}[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenabled = true", 'unknown key "enabled"'),
        (f"{NRI_TABLE}disable = ", "not valid TOML"),
    ],
)
def test_what_containerd_would_ignore_or_refuse_is_a_problem(put, text: str, problem: str) -> None:
    _, found = read_containerd(put({CONFIG: f"version = 3\n{text}\n"}))
    assert any(line.startswith("problem") and problem in line for line in found), found


def test_a_disabled_plugin_is_off_whatever_its_table_says(put) -> None:
    text = f'version = 3\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n{NRI_TABLE}disable = false\n'
    nri, _ = read_containerd(put({CONFIG: text}))
    assert nri is not None
    assert nri.enabled is False
    assert nri.origin["disable"] == f"{CONFIG}:2: disabled_plugins"


def test_required_plugins_count_only_with_the_validator_enabled(put) -> None:
    table = (
        f"version = 3\n{NRI_TABLE}[plugins.'io.containerd.nri.v1.nri'.default_validator]\nrequired_plugins = ['a']\n"
    )
    nri, _ = read_containerd(put({CONFIG: table}))
    assert nri is not None
    assert nri.required == ()
    nri, _ = read_containerd(put({CONFIG: f"{table}enable = true\n"}))
    assert nri is not None
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


# -- CRI-O ------------------------------------------------------------------------------------------------------------


def test_crio_drop_ins_win_by_name_key_by_key(put) -> None:
    root = put(
        {
            "/etc/crio/crio.conf": '[crio.nri]\nenable_nri = false\nnri_plugin_dir = "/a"\n',
            "/etc/crio/crio.conf.d/10-a.conf": "[crio.nri]\nenable_nri = true\n",
            "/etc/crio/crio.conf.d/20-b.conf": '[crio.nri]\nnri_listen = "/s"\nnri_plugin_request_timeout = "4s"\n',
        }
    )
    nri, found = read_crio(root)
    assert nri is not None
    assert (nri.enabled, nri.plugin_path, nri.socket_path, nri.request_timeout_s) == (True, "/a", "/s", 4.0)
    assert found == []
    assert nri.origin["enable_nri"] == "/etc/crio/crio.conf.d/10-a.conf:2: crio.nri.enable_nri"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[crio.nri]\nsocket_path = "/s"', '"socket_path" is containerd\'s name, and CRI-O does not know it'),
        ("[crio.nri]\nenable_nir = true", 'unknown key "enable_nir"; CRI-O ignores it'),
        ("[crio]\nenable_nri = true", '"enable_nri" is at the wrong level'),
        ("[nri]\nenable_nri = true", '"enable_nri" is at the wrong level'),
        ("[crio.nri]\nnri_validator_required_plugins = ['a']", 'unknown key "nri_validator_required_plugins"'),
        ("[crio.nri]\nenable_nri = 'yes'", "must be true or false"),
        ('[crio.nri]\nnri_plugin_request_timeout = "2"', "is not a duration"),
    ],
)
def test_what_crio_would_ignore_or_refuse_is_a_problem(put, text: str, problem: str) -> None:
    _, found = read_crio(put({"/etc/crio/crio.conf": text + "\n"}))
    assert any(line.startswith("problem") and problem in line for line in found), found


def test_crio_says_when_it_depends_on_the_default(put) -> None:
    nri, found = read_crio(put({"/etc/crio/crio.conf": "[crio]\n"}))
    assert nri is not None
    assert nri.enabled is True
    assert found == ["note: /etc/crio/crio.conf: enable_nri is not set: on by default today, off in old releases"]


# -- iSulad -----------------------------------------------------------------------------------------------------------

DAEMON = "/etc/isulad/daemon.json"


def test_isulad_settings_are_read(put) -> None:
    text = '{"nri-support": true, "plugin-path": "/p", "plugin-request-timeout": 3, "disable-connections": false}'
    nri, found = read_isulad(put({DAEMON: text}))
    assert nri is not None
    assert (nri.enabled, nri.connections, nri.plugin_path, nri.request_timeout_s) == (True, True, "/p", 3)
    assert found == []


def test_isulad_is_off_unless_told_otherwise_and_zero_timeouts_are_defaults(put) -> None:
    nri, found = read_isulad(put({DAEMON: '{"plugin-request-timeout": 0}'}))
    assert nri is not None
    assert (nri.enabled, nri.request_timeout_s, found) == (False, 2.0, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n  # allow connections\n  "nri-support": true\n}', f"{DAEMON}:2: a comment, which JSON does not have"),
        ('{\n "nri-support": true\n "plugin-path": "/p"\n}', f"{DAEMON}:3: not valid JSON: expecting ',' delimiter"),
        ('{"nri_support": true}', "an old spelling of the key"),
        ('{"plugin-request-timeout": "5s"}', 'must be a whole number of seconds, not "5s"'),
        ('{"socket_path": "/s"}', "iSulad takes no other socket path"),
        ('{"nri": {"plugin-path": "/p"}}', '"plugin-path" is at the wrong level'),
        ('{"plugin-request-timout": 5}', 'unknown key "plugin-request-timout"; iSulad ignores it'),
        ('{"nri-support": "true"}', "must be true or false"),
    ],
)
def test_what_isulad_would_stumble_over_is_named(put, text: str, problem: str) -> None:
    _, found = read_isulad(put({DAEMON: text}))
    assert any(problem in line for line in found), found


def test_an_isulad_file_with_comments_is_still_understood(put) -> None:
    nri, _ = read_isulad(put({DAEMON: '{\n# on\n"nri-support": true}'}))
    assert nri is not None
    assert nri.enabled is True


# -- against each other -----------------------------------------------------------------------------------------------


def judge(*found: RuntimeNri) -> list[str]:
    findings: list[Finding] = []
    runtimes.check(found, findings)
    return lines(findings)


def test_two_runtimes_on_one_socket_are_a_contradiction() -> None:
    assert any(
        "containerd and cri-o both listen on /var/run/nri/nri.sock" in line
        for line in judge(RuntimeNri("containerd", enabled=True), RuntimeNri("cri-o", enabled=True))
    )


def test_a_runtime_whose_nri_is_off_takes_no_socket() -> None:
    found = judge(RuntimeNri("containerd", enabled=True), RuntimeNri("isulad", enabled=False))
    assert not any("both listen" in line for line in found)
    assert "problem: /etc/isulad/daemon.json: nri-support: NRI is off in isulad by default" in found


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"connections": False}, "connections are disabled: containerd makes no socket"),
        ({"socket_path": "run/nri.sock"}, "is not absolute"),
        ({"socket_path": "/" + "x" * 107}, "has 108 bytes, the kernel takes 107"),
        ({"request_timeout_s": 0.1}, "the request timeout is 100ms"),
        ({"request_timeout_s": 300.0}, "the request timeout is 5m0s"),
        ({"registration_timeout_s": 1.0}, "the registration timeout (1s) is shorter than the request timeout (2s)"),
        ({"request_timeout_s": -1.0}, "a timeout below zero"),
    ],
)
def test_settings_that_cannot_work_well_are_found(settings: dict[str, object], problem: str) -> None:
    assert any(problem in line for line in judge(RuntimeNri("containerd", enabled=True, **settings)))  # type: ignore[arg-type]


def test_no_runtime_at_all_is_a_problem() -> None:
    assert judge() == ["problem: /etc: no configuration of a runtime with NRI was found"]


# -- plugins ----------------------------------------------------------------------------------------------------------


def plugin(root: Path, name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path = root / "opt/nri/plugins" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin/sh").touch()
    return path


def look(root: Path, **settings: object) -> list[str]:
    findings: list[Finding] = []
    plugins.check(str(root), RuntimeNri("containerd", enabled=True, **settings), findings)  # type: ignore[arg-type]
    return lines(findings)


def test_good_plugins_are_listed(tmp_path: Path) -> None:
    plugin(tmp_path, "20-b")
    plugin(tmp_path, "10-a")
    assert look(tmp_path) == ["ok: /opt/nri/plugins: containerd launches 2 plugins: 10-a, 20-b"]


@pytest.mark.parametrize(
    ("name", "mode", "text", "problem"),
    [
        (
            "bad",
            0o755,
            "#!/bin/sh\n",
            'problem: /opt/nri/plugins/bad: invalid plugin name "bad", idx-pluginname expected',
        ),
        ("1-a", 0o755, "#!/bin/sh\n", 'invalid plugin index "1", must be 2 digits'),
        ("10-a", 0o777, "#!/bin/sh\n", "others may write to it (mode 0777)"),
        ("10-a", 0o775, "#!/bin/sh\n", "others may write to it (mode 0775)"),
        ("10-a", 0o644, "#!/bin/sh\n", "note: /opt/nri/plugins/10-a: not executable, so the runtime ignores it"),
        ("10-a", 0o755, "#!/usr/bin/env python3\n", "looks for its interpreter on PATH"),
        ("10-a", 0o755, "#!/gone/python\n", 'its interpreter "/gone/python" does not exist'),
    ],
)
def test_plugins_that_would_fail_or_are_unsafe_are_found(
    tmp_path: Path, name: str, mode: int, text: str, problem: str
) -> None:
    plugin(tmp_path, name, text, mode)
    assert any(problem in line for line in look(tmp_path)), look(tmp_path)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a").with_name("20-b").symlink_to("/gone")
    assert "problem: /opt/nri/plugins/20-b: the link leads nowhere" in look(tmp_path)


def test_a_folder_that_others_may_write_to_is_found(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a").parent.chmod(0o777)
    assert "problem: /opt/nri/plugins: others than its owner may put programs here that run as root" in look(tmp_path)


def test_equal_indices_are_worth_a_note(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a")
    plugin(tmp_path, "10-b")
    assert "note: /opt/nri/plugins: a, b share index 10: their order is not defined" in look(tmp_path)


def test_drop_ins_that_nobody_reads_are_found(tmp_path: Path, put) -> None:
    plugin(tmp_path, "10-a")
    put(
        {
            "/etc/nri/conf.d/10-a.conf": "",
            "/etc/nri/conf.d/a.conf": "",
            "/etc/nri/conf.d/b.conf": "",
            "/etc/nri/conf.d/c.yaml": "",
        }
    )
    found = look(tmp_path)
    assert "warning: /etc/nri/conf.d/a.conf: the file with the index, NN-a.conf, is taken instead of this one" in found
    assert "note: /etc/nri/conf.d/b.conf: no plugin named b in /opt/nri/plugins reads it" in found
    assert "note: /etc/nri/conf.d/c.yaml: not named .conf, so nobody reads it" in found


def test_a_required_plugin_that_is_not_installed_is_worth_a_warning(tmp_path: Path) -> None:
    plugin(tmp_path, "10-a")
    found = look(tmp_path, required=("a", "10-a", "b"))
    assert [line for line in found if "required" in line] == [
        'warning: containerd: plugin "b" is required: no container can be created while it is not connected'
    ]


# -- the socket -------------------------------------------------------------------------------------------------------


def probe(root: Path | str, path: str = "/nri.sock") -> list[str]:
    findings: list[Finding] = []
    sockets.check(str(root), path, findings)
    return lines(findings)


def test_a_socket_on_which_a_runtime_listens_is_fine_and_not_connected_to(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        listener.settimeout(0.2)
        (folder / "nri.sock").chmod(0o600)
        assert probe(folder) == ["ok: /nri.sock: a runtime listens"]
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_socket_that_everybody_may_open_is_a_problem(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        (folder / "nri.sock").chmod(0o666)
        assert any("everybody may connect (mode 0666)" in line for line in probe(folder))


def test_a_socket_that_was_left_behind_is_found(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
    (folder / "nri.sock").chmod(0o600)
    assert probe(folder) == ["problem: /nri.sock: nobody listens: connection refused"]


def test_a_missing_socket_and_a_file_in_its_place_are_found(folder: Path) -> None:
    assert probe(folder) == ["problem: /nri.sock: there is no socket"]
    (folder / "nri.sock").touch()
    assert probe(folder) == ["problem: /nri.sock: it is not a socket"]


# -- the whole --------------------------------------------------------------------------------------------------------


def test_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "run/nri").mkdir(parents=True)
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "loop").symlink_to("loop")
    assert inside(str(tmp_path), "/var/run/nri/nri.sock") == str(tmp_path / "run/nri/nri.sock")
    assert inside(str(tmp_path), "/../../etc/x") == str(tmp_path / "etc/x")
    assert inside("/", "/etc/x") == "/etc/x"
    inside(str(tmp_path), "/loop/x")


def test_a_healthy_node_ends_with_0(nri, folder: Path, put) -> None:
    (folder / "etc/containerd").mkdir(parents=True)
    (folder / "etc/containerd/config.toml").write_text("version = 3\n")
    (folder / "var/run/nri").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "var/run/nri/nri.sock"))
        listener.listen()
        os.chmod(folder / "var/run/nri/nri.sock", 0o600)
        done = nri("doctor", "--root", str(folder))
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("no problems\n")


def test_another_runtime_is_judged_by_its_socket_alone(nri, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "my.sock"))
        listener.listen()
        os.chmod(folder / "my.sock", 0o600)
        (folder / "root").mkdir()
        done = nri("doctor", "--root", str(folder), "--socket-path", "/my.sock")
    assert done.returncode == 0, done.stdout
    assert "/my.sock: a runtime listens" in done.stdout


def test_a_sick_node_ends_with_1_and_says_what_to_do(nri, put) -> None:
    root = put({CONFIG: f"version = 2\n{NRI_TABLE}disable = true\n"})
    done = nri("doctor", "--root", root)
    assert done.returncode == 1
    where = f'{CONFIG}:3: plugins."io.containerd.nri.v1.nri".disable'
    assert f"problem  {where}: NRI is off in containerd\n" in done.stdout
    assert '-> set disable = false in [plugins."io.containerd.nri.v1.nri"] and restart containerd' in done.stdout
    found = json.loads(nri("doctor", "--root", root, "-o", "json").stdout)
    assert {"level", "what", "where", "next"} == set(found[0])
    assert nri("doctor", "--root", root, "-q").stdout.count("\n") == 2, "quiet shows problems only"


def test_the_doctor_says_which_source_of_the_socket_path_won(nri, put) -> None:
    root = put({CONFIG: "version = 3\n"})
    done = nri("doctor", "--root", root, env={"NRI_SOCKET": "/env.sock"})
    assert (
        "NRI_SOCKET: no runtime is configured to listen on /env.sock; configured: /var/run/nri/nri.sock" in done.stdout
    )
    assert "NRI_SOCKET: plugins and nri use /env.sock" in done.stdout
    assert (
        "--socket-path: plugins and nri use /flag.sock"
        in nri("doctor", "--root", root, "--socket-path", "/flag.sock").stdout
    )


def test_the_pure_python_back_end_is_a_problem(nri, put) -> None:
    done = nri(
        "doctor", "--root", put({CONFIG: "version = 3\n"}), env={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    )
    assert "problem  protobuf: protobuf runs on its pure-Python back end" in done.stdout


def test_a_socket_that_we_may_not_open_is_found(folder: Path) -> None:
    """As somebody else than root: in a child process, since only a process can change its user."""
    need_root()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        (folder / "nri.sock").chmod(0o600)
        folder.chmod(0o755)
        child = os.fork()
        if not child:
            os.setuid(65534)
            os._exit(0 if "problem: /nri.sock: we may not connect" in probe(folder) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
