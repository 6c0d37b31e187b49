"""Settings that contradict themselves are refused, and every key has its meaning."""

from typing import Any

import pytest

from nri.agent.settings import Settings, settings_keys
from nri.agent.settings.values import (
    HooksSettings,
    HttpSettings,
    LoopSettings,
    NriSettings,
    PodSettings,
    ProxySettings,
    StandaloneSettings,
)
from nri.config import Source, read


@pytest.mark.parametrize(
    ("table", "values", "complaint"),
    [
        (Settings, {"modes": ()}, "modes is empty"),
        (Settings, {"modes": ("nri", "nri")}, "names one twice"),
        (Settings, {"socket": "agent.sock"}, "no absolute path"),
        (Settings, {"socket": "/" + "a" * 107}, "longer than the 107 bytes"),
        (NriSettings, {"index": "5"}, "not two digits"),
        (NriSettings, {"index": "\u0660\u0660"}, "not two digits"),
        (NriSettings, {"name": ""}, "cannot be the name of a plugin"),
        (NriSettings, {"connect_timeout": 0.0}, "connect_timeout 0 s is no time to wait"),
        (ProxySettings, {"listen": "/a", "runtime_endpoint": "unix:///a"}, "needs one of its own"),
        (HooksSettings, {"socket": "x"}, "no absolute path"),
        (StandaloneSettings, {"interval": -1.0}, "no time to wait"),
        (LoopSettings, {"interval": 0.0}, "no time to wait"),
        (PodSettings, {"kubelet": "localhost"}, "is no address"),
        (HttpSettings, {"address": "9316"}, "not HOST:PORT"),
        (HttpSettings, {"address": "127.0.0.1:70000"}, "not HOST:PORT"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(table: Any, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        table(**values)


def test_every_key_has_a_meaning_and_can_be_written_with_its_default() -> None:
    listed = settings_keys()
    assert [key.key for key in listed if not key.meaning or not key.kind] == []
    for key in listed:
        if key.default and "list" not in key.kind:
            value = key.default if key.kind in ("number", "true or false") else f'"{key.default}"'
            assert read(Settings, [Source("f", f"{key.key} = {value}", "toml")]) == Settings(), key.key


def test_settings_are_frozen_and_can_be_compared() -> None:
    assert Settings() == Settings()
    with pytest.raises(AttributeError):
        Settings().modes = ()  # type: ignore[misc]
