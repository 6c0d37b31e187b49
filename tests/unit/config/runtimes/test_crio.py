"""CRI-O's configuration as CRI-O reads it: drop-ins by name, and the keys that have no effect."""

from __future__ import annotations

import pytest

from nri.config.runtimes import crio
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri

CONFIG = "/etc/crio/crio.conf"


def read(root: str) -> tuple[RuntimeNri, list[Remark]]:
    reading = crio.read(root)
    assert reading.runtime == "cri-o"
    assert reading.nri is not None
    return reading.nri, reading.remarks


def test_crio_drop_ins_win_by_name_key_by_key(put) -> None:
    root = put(
        {
            CONFIG: '[crio.nri]\nenable_nri = false\nnri_plugin_dir = "/a"\n',
            "/etc/crio/crio.conf.d/10-a.conf": "[crio.nri]\nenable_nri = true\n",
            "/etc/crio/crio.conf.d/20-b.conf": '[crio.nri]\nnri_listen = "/s"\nnri_plugin_request_timeout = "4s"\n',
        }
    )
    nri, findings = read(root)
    assert (nri.enabled, nri.plugin_path, nri.socket_path, nri.request_timeout_s) == (True, "/a", "/s", 4.0)
    assert findings == []
    assert nri.origin["enable_nri"] == "/etc/crio/crio.conf.d/10-a.conf:2: crio.nri.enable_nri"


def test_without_the_key_the_default_of_the_release_is_reported(put) -> None:
    nri, findings = read(put({CONFIG: "[crio]\n"}))
    assert nri.enabled is True
    assert findings == [(Kind.RELEASE_DECIDES, CONFIG, {})]


def test_a_switch_of_another_type_is_not_reported_as_missing(put) -> None:
    nri, findings = read(put({CONFIG: '[crio.nri]\nenable_nri = "yes"\n'}))
    assert nri.enabled is True
    assert [kind for kind, *_ in findings] == [Kind.WRONG_TYPE]


def test_without_a_file_there_is_no_cri_o(put) -> None:
    assert crio.read(put()) == ("cri-o", None, [])


def test_connections_and_required_plugins_are_read(put) -> None:
    validator = "[crio.nri.default_validator]\nnri_enable_default_validator = true\n"
    text = f"[crio.nri]\nenable_nri = true\nnri_disable_connections = true\n{validator}"
    nri, findings = read(put({CONFIG: f'{text}nri_validator_required_plugins = ["a"]\n'}))
    assert (nri.connections, nri.required, findings) == (False, ("a",), [])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('[crio.nri]\nenable_nri = true\nsocket_path = "/s"', Kind.FOREIGN_KEY),
        ("[crio.nri]\nenable_nri = true\nenable_nir = true", Kind.UNKNOWN_KEY),
        ("[crio]\nnri_listen = '/s'\n[crio.nri]\nenable_nri = true", Kind.MISPLACED),
        ("[crio.nri]\nenable_nri = true\nnri_listen = 1", Kind.WRONG_TYPE),
        ('[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = "2"', Kind.NO_DURATION),
    ],
)
def test_keys_that_cri_o_ignores_are_reported_and_have_no_effect(put, text: str, kind: Kind) -> None:
    nri, findings = read(put({CONFIG: f"{text}\n"}))
    assert [remark.kind for remark in findings] == [kind]
    assert (nri.enabled, nri.socket_path, nri.request_timeout_s) == (True, "/var/run/nri/nri.sock", 2.0)


def test_drop_ins_are_sorted_like_in_cri_o(put) -> None:
    folder = "/etc/crio/crio.conf.d"
    texts = {
        f"{folder}/.hidden": "/dot",
        f"{folder}/05-a/99-last.conf": "/folder",
        f"{folder}/05-a/.z/deep": "/deep",
        f"{folder}/10-b.conf~": "/backup",
    }
    for count in range(1, len(texts) + 1):
        order = [f"{folder}/.hidden", f"{folder}/05-a/.z/deep", f"{folder}/05-a/99-last.conf", f"{folder}/10-b.conf~"]
        paths = {path: f'[crio.nri]\nenable_nri = true\nnri_listen = "{texts[path]}"\n' for path in order[:count]}
        nri, findings = read(put({CONFIG: "[crio.nri]\n", **paths}))
        assert (nri.socket_path, findings) == (texts[order[count - 1]], [])


def test_an_empty_value_of_a_later_file_restores_the_default(put) -> None:
    first = '[crio.nri]\nenable_nri = true\nnri_listen = "/s"\nnri_plugin_dir = "/p"\nnri_plugin_config_dir = "/c"\n'
    first += 'nri_plugin_request_timeout = "9s"\nnri_plugin_registration_timeout = "9s"\n'
    second = '[crio.nri]\nnri_listen = ""\nnri_plugin_dir = ""\nnri_plugin_config_dir = ""\n'
    second += 'nri_plugin_request_timeout = 0\nnri_plugin_registration_timeout = "0s"\n'
    nri, findings = read(put({CONFIG: first, "/etc/crio/crio.conf.d/50-back": second}))
    default = RuntimeNri("cri-o")
    assert [getattr(nri, s.field) for s in crio.SETTINGS[:5]] == [getattr(default, s.field) for s in crio.SETTINGS[:5]]
    assert findings == [] and nri.origin["nri_listen"] == "/etc/crio/crio.conf.d/50-back:2: crio.nri.nri_listen"


def test_durations_may_be_whole_nanoseconds(put) -> None:
    text = "[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = 3_500_000_000\n"
    nri, findings = read(put({CONFIG: text}))
    assert (nri.request_timeout_s, findings) == (3.5, [])


def test_an_empty_string_is_not_a_duration(put) -> None:
    nri, findings = read(put({CONFIG: '[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = ""\n'}))
    assert (nri.request_timeout_s, [remark.kind for remark in findings]) == (2.0, [Kind.NO_DURATION])


def test_keys_match_in_any_case_and_keep_their_spelling(put) -> None:
    text = '[CRIO.Nri]\nEnable_NRI = true\n[crio.nri]\nNRI_listen = "/wrong"\nnri_listen = "/right"\nenable_nir = 1\n'
    nri, findings = read(put({CONFIG: text}))
    assert (nri.enabled, nri.socket_path) == (True, "/right")
    assert nri.origin["enable_nri"] == f"{CONFIG}:2: CRIO.Nri.Enable_NRI"
    assert [(remark.kind, remark.where) for remark in findings] == [
        (Kind.UNKNOWN_KEY, f"{CONFIG}:6: crio.nri.enable_nir")
    ]


def test_an_invalid_drop_in_affects_no_other_file(put) -> None:
    root = put({CONFIG: "[crio.nri]\nenable_nri = false\n", "/etc/crio/crio.conf.d/a.conf": "[crio.nri\n"})
    nri, findings = read(root)
    assert (nri.enabled, [remark.kind for remark in findings]) == (False, [Kind.INVALID])


ON = "nri_enable_default_validator = true\n"


@pytest.mark.parametrize(
    ("first", "second", "required"),
    [
        (ON, 'nri_validator_required_plugins = ["a"]\n', ("a",)),
        ('nri_validator_required_plugins = ["a"]\n', ON, ("a",)),
        (f'{ON}nri_validator_required_plugins = ["a", "b"]\n', 'nri_validator_required_plugins = ["c"]\n', ("c",)),
        (f'{ON}nri_validator_required_plugins = ["a"]\n', "nri_validator_required_plugins = []\n", ()),
        (f'{ON}nri_validator_required_plugins = ["a"]\n', "nri_enable_default_validator = false\n", ()),
    ],
)
def test_the_validators_keys_of_all_files_count_together(
    put, first: str, second: str, required: tuple[str, ...]
) -> None:
    table = "[crio.nri.default_validator]\n"
    nri, _ = read(put({CONFIG: table + first, "/etc/crio/crio.conf.d/1.conf": table + second}))
    assert nri.required == required


@pytest.mark.parametrize(
    "text",
    [
        "crio = 5",
        "[crio]\nnri = true",
        "[[crio.nri]]",
        "[crio.nri]\ndefault_validator = true",
        "[crio.nri.default_validator]\nnri_validator_required_plugins = [1]",
        '[crio.nri.default_validator]\nnri_validator_reject_oci_hook_adjustment = "yes"',
        '[crio.runtime]\npids_limit = "x"',
        "[crio.runtime.runtimes.runc]\nruntime_path = 5",
        "[crio.metrics]\nmetrics_port = 99999999999999999999",
    ],
)
def test_a_value_of_a_wrong_type_in_any_table_stops_cri_o(put, text: str) -> None:
    failure = crio.read(put({CONFIG: f"{text}\n"})).failure
    assert failure is not None and failure.kind is Kind.WRONG_TYPE


@pytest.mark.parametrize(
    "text", ["[crio.runtime]\nruntimes = []", "[crio.runtime]\nunknown = 1", "[crio.image]\npull_progress_timeout = 0"]
)
def test_cri_o_starts_with_unknown_keys_and_convertible_values(put, text: str) -> None:
    assert crio.read(put({CONFIG: f"{text}\n"})).failure is None
