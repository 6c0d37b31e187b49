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
    nri, found = read(root)
    assert (nri.enabled, nri.plugin_path, nri.socket_path, nri.request_timeout_s) == (True, "/a", "/s", 4.0)
    assert found == []
    assert nri.origin["enable_nri"] == "/etc/crio/crio.conf.d/10-a.conf:2: crio.nri.enable_nri"


def test_crio_says_when_it_depends_on_the_default(put) -> None:
    nri, found = read(put({CONFIG: "[crio]\n"}))
    assert nri.enabled is True
    assert found == [(Kind.RELEASE_DECIDES, CONFIG, {})]


def test_without_a_file_there_is_no_crio(put) -> None:
    assert crio.read(put()) == ("cri-o", None, [])


def test_connections_and_required_plugins_are_read(put) -> None:
    validator = "[crio.nri.default_validator]\nnri_enable_default_validator = true\n"
    text = f"[crio.nri]\nenable_nri = true\nnri_disable_connections = true\n{validator}"
    nri, found = read(put({CONFIG: f'{text}nri_validator_required_plugins = ["a"]\n'}))
    assert (nri.connections, nri.required, found) == (False, ("a",), [])


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
def test_what_crio_would_ignore_is_remarked_on_and_has_no_effect(put, text: str, kind: Kind) -> None:
    nri, found = read(put({CONFIG: f"{text}\n"}))
    assert [remark.kind for remark in found] == [kind]
    assert (nri.enabled, nri.socket_path, nri.request_timeout_s) == (True, "/var/run/nri/nri.sock", 2.0)


def test_a_drop_in_that_cannot_be_used_costs_only_itself(put) -> None:
    root = put({CONFIG: "[crio.nri]\nenable_nri = false\n", "/etc/crio/crio.conf.d/a.conf": "[crio.nri\n"})
    nri, found = read(root)
    assert (nri.enabled, [remark.kind for remark in found]) == (False, [Kind.INVALID])
