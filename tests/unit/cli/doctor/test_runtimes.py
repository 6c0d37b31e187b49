"""Checks of the runtimes' settings, alone and together."""

from __future__ import annotations

import pytest

from nri.cli.doctor import Finding, runtimes
from nri.cli.doctor.runtimes import finding, findings_of
from nri.config.runtimes import containerd, crio, isulad
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri
from tests.unit.cli.conftest import lines


def judge(*nri_settings: RuntimeNri) -> list[str]:
    findings: list[Finding] = []
    runtimes.check(nri_settings, findings)
    return lines(findings)


def test_two_runtimes_on_one_socket_are_a_problem() -> None:
    assert any(
        "containerd and cri-o both use /var/run/nri/nri.sock" in line
        for line in judge(RuntimeNri("containerd", enabled=True), RuntimeNri("cri-o", enabled=True))
    )


def test_a_runtime_with_nri_off_uses_no_socket() -> None:
    findings = judge(RuntimeNri("containerd", enabled=True), RuntimeNri("isulad", enabled=False))
    assert not any("both listen" in line for line in findings)
    assert "problem: /etc/isulad/daemon.json: nri-support: NRI is off in isulad by default" in findings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"connections": False}, "connections are disabled: containerd has no NRI socket"),
        ({"socket_path": "run/nri.sock"}, "is not absolute"),
        ({"socket_path": "/" + "x" * 107}, "has 108 bytes; the kernel allows 107"),
        ({"request_timeout_s": 0.1}, "the request timeout is 100ms"),
        ({"request_timeout_s": 300.0}, "the request timeout is 5m0s"),
        ({"registration_timeout_s": 1.0}, "the registration timeout (1s) is shorter than the request timeout (2s)"),
        ({"request_timeout_s": -1.0}, "the timeout is negative"),
    ],
)
def test_problematic_settings_are_reported(settings: dict[str, object], problem: str) -> None:
    assert any(problem in line for line in judge(RuntimeNri("containerd", enabled=True, **settings)))  # type: ignore[arg-type]


def test_a_node_without_a_runtime_is_a_problem() -> None:
    assert judge() == ["problem: /etc: no configuration of a runtime with NRI found"]


NRI_TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'
CONFIG = "/etc/containerd/config.toml"
CRIO = "/etc/crio/crio.conf"
DAEMON = "/etc/isulad/daemon.json"
IN_TABLE = f'{CONFIG}:3: plugins."io.containerd.nri.v1.nri"'
VERSION = (
    "write version = 2 (containerd 1.x) or version = 3 at the top; `containerd config migrate` prints a complete file"
)


def first(findings: list[Finding]) -> tuple[str, str, str, str]:
    assert findings, "there is nothing to say"
    return findings[0].level, findings[0].what, findings[0].where, findings[0].next


@pytest.mark.parametrize(
    ("text", "what", "where", "step"),
    [
        (
            f'version = 3\n{NRI_TABLE}plugin_request_timout = "2s"',
            'unknown key "plugin_request_timout"; containerd ignores it',
            f"{IN_TABLE}.plugin_request_timout",
            'did you mean "plugin_request_timeout"?',
        ),
        (
            "version = 3\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenabled = true",
            'unknown key "enabled"; containerd ignores it',
            f"{IN_TABLE}.default_validator.enabled",
            'did you mean "enable"?',
        ),
        (
            'version = 3\n[plugins]\nplugin_request_timeout = "5s"',
            '"plugin_request_timeout" is at the wrong level and has no effect',
            f"{CONFIG}:3: plugins.plugin_request_timeout",
            'move it to [plugins."io.containerd.nri.v1.nri"]',
        ),
        (
            'version = 3\n[plugins."io.containerd.grpc.v1.cri".nri]\ndisable = false',
            'containerd has no table "plugins."io.containerd.grpc.v1.cri".nri"',
            f'{CONFIG}:2: plugins."io.containerd.grpc.v1.cri".nri',
            'the table is [plugins."io.containerd.nri.v1.nri"]',
        ),
        (
            'version = 3\n[plugins."io.containerd.nri.v1"]\ndisable = false',
            'containerd has no table "plugins."io.containerd.nri.v1""',
            f'{CONFIG}:2: plugins."io.containerd.nri.v1"',
            'the table is [plugins."io.containerd.nri.v1.nri"]',
        ),
        (
            "[plugins.nri]\ndisable = false",
            "containerd 2.x does not know this table, and ignores it; 1.7 reads it if no file has a version",
            f"{CONFIG}:1: plugins.nri",
            VERSION,
        ),
        (
            f'version = 3\n{NRI_TABLE}disable = "false"',
            "must be true or false, not 'false': containerd does not start with it",
            f"{IN_TABLE}.disable",
            "",
        ),
        (
            f"version = 3\n{NRI_TABLE}plugin_request_timeout = 5.5",
            "must be a quoted string, not 5.5: containerd does not start with it",
            f"{IN_TABLE}.plugin_request_timeout",
            "",
        ),
        (
            "version = 3\nimports = 1",
            "must be a list of strings, not 1: containerd does not start with it",
            f"{CONFIG}:2: imports",
            "",
        ),
        (
            f'version = 3\n{NRI_TABLE}plugin_request_timeout = "5"',
            '"5" is not a duration: containerd does not start with it',
            f"{IN_TABLE}.plugin_request_timeout",
            "write a number with a unit, such as 2s",
        ),
        (
            "version = 3\nx = ",
            "not valid TOML: invalid value",
            f"{CONFIG}:2",
            "correct it: the runtime does not start with it",
        ),
        (
            'version = 3\nimports = ["/etc/containerd/gone.toml"]',
            'the imported file "/etc/containerd/gone.toml" does not exist',
            f"{CONFIG}:2: imports",
            "create the file, or remove it from the list: containerd does not start without it",
        ),
    ],
)
def test_settings_that_containerd_ignores_or_refuses_are_problems(
    put, text: str, what: str, where: str, step: str
) -> None:
    reading = containerd.read(put({CONFIG: f"{text}\n"}))
    assert first(findings_of(reading)) == ("problem", what, where, step)


def test_a_drop_in_without_an_import_is_a_problem(put) -> None:
    stray = "/etc/containerd/conf.d/nri.toml"
    reading = containerd.read(put({CONFIG: "version = 3\n", stray: f"version = 3\n{NRI_TABLE}disable = false\n"}))
    step = 'add imports = ["/etc/containerd/conf.d/*.toml"] to /etc/containerd/config.toml'
    assert first(findings_of(reading)) == ("problem", "the file configures NRI, but is not imported", stray, step)


def test_a_table_that_replaces_another_is_a_problem_in_1_7(put) -> None:
    imported = "/etc/containerd/conf.d/nri.toml"
    main = f'version = 2\nimports = ["conf.d/*.toml"]\n{NRI_TABLE}disable = true\nplugin_path = "/a"\n'
    reading = containerd.read(put({CONFIG: main, imported: f"version = 2\n{NRI_TABLE}disable = false\n"}), "1.7.24")
    assert first(findings_of(reading)) == (
        "problem",
        f"in containerd 1.x this table replaces the table in {CONFIG}: plugin_path revert to their defaults",
        f'{imported}:2: plugins."io.containerd.nri.v1.nri"',
        "keep the entire NRI table in one file",
    )


def test_a_file_without_a_version_line_is_a_problem_in_1_7(put) -> None:
    reading = containerd.read(put({CONFIG: f'{NRI_TABLE}socket_path = "/s"\n'}), "1.7.24")
    what = "containerd 1.7 does not know this table unless one of its files has version = 2, and ignores it"
    assert first(findings_of(reading)) == ("problem", what, f'{CONFIG}:1: plugins."io.containerd.nri.v1.nri"', VERSION)


def test_a_file_that_depends_on_the_release_is_a_warning_or_a_note(put) -> None:
    root = put({CONFIG: "version = 2\n", CRIO: "[crio]\n"})
    assert first(findings_of(containerd.read(root))) == (
        "warning",
        "with this file NRI is disabled in containerd 1.7, and enabled in 2.0 and newer",
        CONFIG,
        f"specify the release with --release; or write version = 2 and in {NRI_TABLE.strip()} disable = false",
    )
    assert first(findings_of(crio.read(root))) == (
        "note",
        "enable_nri is not set: NRI is enabled by default, but disabled in old releases",
        CRIO,
        "write enable_nri = true in [crio.nri]",
    )


@pytest.mark.parametrize(
    ("text", "what", "step"),
    [
        (
            '[crio.nri]\nsocket_path = "/s"',
            '"socket_path" is a key of containerd that CRI-O does not have',
            "write nri_listen",
        ),
        (
            "[crio.nri]\nenable_nir = true",
            'unknown key "enable_nir"; CRI-O ignores it',
            'did you mean "enable_nri"?',
        ),
        ("[crio]\nenable_nri = true", '"enable_nri" is at the wrong level and has no effect', "move it to [crio.nri]"),
        ("[nri]\nenable_nri = true", '"enable_nri" is at the wrong level and has no effect', "move it to [crio.nri]"),
        ("[crio.nri]\nenable_nri = 'yes'", "must be true or false, not 'yes'", ""),
    ],
)
def test_settings_that_cri_o_ignores_or_refuses_are_problems(put, text: str, what: str, step: str) -> None:
    level, *words, _, found_step = first(findings_of(crio.read(put({CRIO: f"{text}\n"}))))
    assert (level, words, found_step) == ("problem", [what], step)


@pytest.mark.parametrize(
    ("text", "level", "what", "where", "step"),
    [
        (
            '{\n  # allow connections\n  "nri-support": true\n}',
            "problem",
            "JSON does not allow comments: iSulad does not start with it",
            f"{DAEMON}:2",
            "remove the comment, or begin it with //",
        ),
        (
            '{\n "nri-support": true\n "plugin-path": "/p"\n}',
            "problem",
            "not valid JSON: expecting ',' delimiter in column 2",
            f"{DAEMON}:3",
            "check the end of the previous line for a missing comma",
        ),
        (
            '{"a": }',
            "problem",
            "not valid JSON: expecting value in column 7: iSulad does not start with it",
            f"{DAEMON}:1",
            "",
        ),
        (
            '{"nri_support": true}',
            "problem",
            "the key has an old spelling, and iSulad ignores it",
            f"{DAEMON}:1: nri_support",
            'write "nri-support"',
        ),
        (
            '{"plugin-request-timeout": "5s"}',
            "problem",
            'must be a whole number of seconds, not "5s": iSulad ignores it',
            f"{DAEMON}:1: plugin-request-timeout",
            "write 5",
        ),
        (
            '{"socket_path": "/s"}',
            "problem",
            "iSulad does not support another socket path",
            f"{DAEMON}:1: socket_path",
            "remove the key; the socket is /var/run/nri/nri.sock",
        ),
        (
            '{"nri-suport": true}',
            "problem",
            'unknown key "nri-suport"; iSulad ignores it',
            f"{DAEMON}:1: nri-suport",
            'did you mean "nri-support"?',
        ),
        (
            '{"a": {"plugin-path": "/p"}}',
            "problem",
            '"plugin-path" is at the wrong level and has no effect',
            f"{DAEMON}:1: a.plugin-path",
            "move it to the top level of the file",
        ),
        (
            '{"nri-support": "true"}',
            "problem",
            "must be true or false, not 'true': iSulad ignores it",
            f"{DAEMON}:1: nri-support",
            "",
        ),
    ],
)
def test_settings_that_isulad_cannot_read_are_reported(
    put, text: str, level: str, what: str, where: str, step: str
) -> None:
    assert first(findings_of(isulad.read(put({DAEMON: text})))) == (level, what, where, step)


@pytest.mark.parametrize(("runtime", "step"), [("containerd", "run the doctor as root"), ("isulad", "")])
def test_an_unreadable_file_is_a_problem_with_the_reason(runtime: str, step: str) -> None:
    reason = "cannot read it: Permission denied"
    result = finding(runtime, Remark(Kind.DENIED, CONFIG, {"reason": reason}))
    assert result == Finding("problem", reason, CONFIG, step)
