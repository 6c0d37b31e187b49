"""Contradictory settings of the proxy are errors with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from nri.proxy.settings import HookServerSettings, PluginSettings, ProxySettings


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"listen": ""}, "listen is empty"),
        ({"listen": f"/{'x' * 200}"}, "too long for a socket"),
        ({"listen": f"/{'x' * 100}"}, "nri.admin_socket /x+-admin.sock is too long"),
        ({"listen": "/a.sock", "runtime_endpoint": "unix:///a.sock"}, "would call itself"),
        ({"runtime_endpoint": "tcp://10.0.0.1:3735"}, "runtime_endpoint tcp://10.0.0.1:3735 is not the path of a unix"),
        ({"poll_interval": 0.0}, "poll_interval 0 s"),
    ],
)
def test_contradictory_settings_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ProxySettings(**keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "admin_socket"),
    [
        ({}, "/run/nri-proxy/proxy-admin.sock"),
        ({"listen": "unix:///run/second.sock"}, "/run/second-admin.sock"),
        ({"listen": "/run/second"}, "/run/second-admin.sock"),
        ({"listen": "/run/second.sock", "nri": PluginSettings(admin_socket="/a.sock")}, "/a.sock"),
        ({"nri": PluginSettings(admin_socket="")}, ""),
    ],
)
def test_by_default_the_admin_socket_is_next_to_the_cri_socket(keys: dict[str, Any], admin_socket: str) -> None:
    assert ProxySettings(**keys).nri.admin_socket == admin_socket


def test_a_timeout_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="plugin_request_timeout 0 s"):
        PluginSettings(plugin_request_timeout=0.0)
    with pytest.raises(ValueError, match="timeout 0 s"):
        HookServerSettings(timeout=0.0)


def test_the_default_settings_are_valid() -> None:
    assert ProxySettings().hook_servers.enable is False
