"""Contradictory tables of settings are refused with the value."""

from typing import Any, get_args, get_type_hints

import pytest

from nri.agent.settings.tables import (
    HooksSettings,
    LoopSettings,
    NriSettings,
    PodSettings,
    ProxySettings,
    StandaloneSettings,
)
from nri.host.cgroups.drivers import SCOPES
from nri.service.settings import HttpSettings


@pytest.mark.parametrize(
    ("table", "values", "complaint"),
    [
        (NriSettings, {"index": "5"}, "must be two digits"),
        (NriSettings, {"index": "\u0660\u0660"}, "must be two digits"),
        (NriSettings, {"name": ""}, "cannot be the name of a plugin"),
        (NriSettings, {"connect_timeout": 0.0}, "connect_timeout 0 s is too short for a timeout"),
        (ProxySettings, {"listen": "/a", "runtime_endpoint": "unix:///a"}, "they must differ"),
        (ProxySettings, {"skip_label": "mine"}, 'skip_label "mine" must be KEY=VALUE'),
        (ProxySettings, {"skip_label": "=true"}, 'skip_label "=true" must be KEY=VALUE'),
        (StandaloneSettings, {"interval": -1.0}, "too short for a timeout"),
        (LoopSettings, {"interval": 0.0}, "too short for a timeout"),
        (
            PodSettings,
            {"kubelet": "localhost"},
            'kubelet "localhost" is not an address; for example "https://127.0.0.1:10250"',
        ),
        (HttpSettings, {"address": "9316"}, "not HOST:PORT"),
        (HttpSettings, {"address": "127.0.0.1:70000"}, "not HOST:PORT"),
    ],
)
def test_an_invalid_combination_is_refused_with_its_value(table: Any, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        table(**values)


def test_the_skip_label_can_be_empty_or_have_an_empty_value() -> None:
    for label in ("", "mine="):
        assert ProxySettings(skip_label=label).skip_label == label


def test_mode_hooks_accepts_every_runtime_with_known_cgroups() -> None:
    assert set(get_args(get_type_hints(HooksSettings)["runtime"])) == set(SCOPES) - {"podman"}
