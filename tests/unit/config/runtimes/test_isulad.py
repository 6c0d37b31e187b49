"""iSulad's configuration, also with mistakes that iSulad itself does not accept."""

from __future__ import annotations

import pytest

from nri.config.runtimes import isulad
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri
from nri.config.runtimes.remark_texts import texts_of
from nri.config.source import Source
from nri.errors import ConfigError

DAEMON = "/etc/isulad/daemon.json"


def read(root: str) -> tuple[RuntimeNri, list[Remark]]:
    reading = isulad.read(root)
    assert reading.runtime == "isulad"
    assert reading.nri is not None
    return reading.nri, reading.remarks


def test_isulad_settings_are_read(put) -> None:
    text = '{"enable-cri-v1": true, "nri-support": true, "plugin-path": "/p", "plugin-request-timeout": 3}'
    nri, findings = read(put({DAEMON: text}))
    assert (nri.enabled, nri.connections, nri.plugin_path, nri.request_timeout_s) == (True, True, "/p", 3)
    assert findings == []


def test_by_default_nri_is_off_and_zero_timeouts_are_defaults(put) -> None:
    nri, findings = read(put({DAEMON: '{"plugin-request-timeout": 0}'}))
    assert (nri.enabled, nri.request_timeout_s, findings) == (False, 2.0, [])


ON = '"nri-support": true, "enable-cri-v1": true'


@pytest.mark.parametrize(
    ("text", "is_on", "kind"),
    [
        ("{\n# on\n%s}", None, Kind.COMMENT),
        ("{\n// on\n%s}", True, None),
        ("{\n/* on\n*/%s}", True, None),
        ('{"nri-support": false, %s}', False, Kind.SECOND_KEY),
        ('{%s, "nri-support": false} // off', True, Kind.SECOND_KEY),
        ('{%s, "plugin-request-timeout": 1.5}', None, Kind.WRONG_TYPE),
        (f'{{%s, "plugin-request-timeout": {1 << 64}}}', None, Kind.WRONG_TYPE),
        ('{%s, "plugin-request-timeout": true}', True, Kind.IGNORED_VALUE),
        ('{%s, "plugin-path": 5}', True, Kind.IGNORED_VALUE),
        ("{%s,}", None, Kind.EXTRA_COMMA),
        ("\ufeff{%s}", None, Kind.INVALID),
        (" ", None, Kind.INVALID),
        ("[]", False, None),
    ],
)
def test_verdicts_equal_those_of_a_running_isulad(put, text: str, is_on: bool | None, kind: Kind | None) -> None:
    reading = isulad.read(put({DAEMON: text.replace("%s", ON)}))
    assert (reading.nri.enabled if reading.nri else None) is is_on
    assert [remark.kind for remark in reading.remarks] == ([] if kind is None else [kind])
    assert (reading.failure is not None) is (is_on is None)


def test_our_engine_reads_the_old_spelling_and_durations(put) -> None:
    reading = isulad.read(put({DAEMON: '{"nri_support": true, "plugin-request-timeout": "5s"}'}), lenient=True)
    assert reading.nri is not None and (reading.nri.enabled, reading.nri.request_timeout_s) == (True, 5.0)


@pytest.mark.parametrize("text", ['{"nri-support": true}', '{"nri-support": true, "enable-cri-v1": false}'])
def test_nri_without_cri_v1_is_a_problem(put, text) -> None:
    reading = isulad.read(put({DAEMON: text}))
    assert reading.obstacle is not None
    assert '"enable-cri-v1" is' in texts_of("isulad", reading.obstacle).what


def test_without_a_file_there_is_no_isulad(put) -> None:
    assert isulad.read(put()) == ("isulad", None, [])


def test_a_missing_comma_is_distinguished_from_other_mistakes(put) -> None:
    for text, kind in (('{"a": 1\n"b": 2}', Kind.MISSING_COMMA), ('{"a": }', Kind.INVALID)):
        reading = isulad.read(put({DAEMON: text}))
        assert (reading.nri, [remark.kind for remark in reading.remarks]) == (None, [kind])


@pytest.mark.parametrize(
    ("text", "kind", "enabled", "timeout_s"),
    [
        ('{"nri_support": true}', Kind.OLD_SPELLING, False, 2.0),
        ('{"plugin-request-timeout": "5s"}', Kind.NO_SECONDS, False, 2.0),
        ('{"plugin-request-timeout": "soon"}', Kind.IGNORED_VALUE, False, 2.0),
        ('{"socket_path": "/s"}', Kind.FIXED_SOCKET, False, 2.0),
        ('{"nri": {"plugin-request-timeout": 5}}', Kind.MISPLACED, False, 2.0),
        ('{"plugin-request-timout": 5}', Kind.UNKNOWN_KEY, False, 2.0),
        ('{"nri-support": "true"}', Kind.IGNORED_VALUE, False, 2.0),
    ],
)
def test_mistakes_are_reported_and_repaired_if_possible(
    put, text: str, kind: Kind, enabled: bool, timeout_s: float
) -> None:
    nri, findings = read(put({DAEMON: text}))
    assert kind in [remark.kind for remark in findings]
    assert (nri.enabled, nri.request_timeout_s, nri.socket_path) == (enabled, timeout_s, "/var/run/nri/nri.sock")


SAMPLE = """{
    # allow plugins to connect
    "nri-support": true
    "disable-connections" = false, // here
    "plugin-path": "/opt/#1//x",
}
"""


def test_every_mistake_of_a_published_sample_has_its_line() -> None:
    tree, _, remarks = isulad.parse(Source("f", SAMPLE, "json"))
    assert tree == {"nri-support": True, "disable-connections": False, "plugin-path": "/opt/#1//x"}
    assert [(one.kind, one.where) for one in remarks] == [
        (Kind.COMMENT, "f:2"),
        (Kind.MISSING_COMMA, "f:4"),
        (Kind.EQUALS_SIGN, "f:4"),
        (Kind.EXTRA_COMMA, "f:5"),
    ]


def test_valid_text_is_unchanged() -> None:
    text = '{"a": [1, {"b": "x, # y"}]}'
    tree, plain, remarks = isulad.parse(Source("f", text, "json"))
    assert (plain.text, remarks) == (text, [])
    assert tree == {"a": [1, {"b": "x, # y"}]}


@pytest.mark.parametrize("text", ['{"a": }', '{"a": 1 2}', "{a: 1}", "[" * 100_000, '{"a": 1, "a": 2}'])
def test_text_that_cannot_be_repaired_is_the_parsers_error(text: str) -> None:
    with pytest.raises(ConfigError):
        isulad.parse(Source("f", text, "json"))
