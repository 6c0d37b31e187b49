"""Settings of the proxy that contradict themselves are refused with what is wrong."""

from __future__ import annotations

import pytest

from nri.proxy.settings import HookServerSettings, PluginSettings, ProxySettings


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"listen": ""}, "listen is empty"),
        ({"listen": f"/{'x' * 200}"}, "longer than a socket's path"),
        ({"listen": "/a.sock", "runtime_endpoint": "unix:///a.sock"}, "would call itself"),
        ({"poll_interval": 0.0}, "poll_interval 0 s"),
    ],
)
def test_a_proxy_that_cannot_work_is_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ProxySettings(**keys)  # type: ignore[arg-type]


def test_a_wait_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="plugin_request_timeout 0 s"):
        PluginSettings(plugin_request_timeout=0.0)
    with pytest.raises(ValueError, match="timeout 0 s"):
        HookServerSettings(timeout=0.0)


def test_the_defaults_are_of_one_piece() -> None:
    assert ProxySettings().hook_servers.enable is False
