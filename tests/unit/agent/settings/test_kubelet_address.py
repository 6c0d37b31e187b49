"""Addresses of a kubelet: valid ones, invalid ones, and those that would expose a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.settings import AGENT_SETTINGS
from nri.agent.settings.kubelet_address import kubelet_address
from nri.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://127.0.0.1:10250", (True, "127.0.0.1", 10250, True)),
        ("https://10.0.0.5:10250", (True, "10.0.0.5", 10250, False)),
        ("https://node-1.example:10250/", (True, "node-1.example", 10250, False)),
        ("http://127.8.0.1:10255", (False, "127.8.0.1", 10255, True)),
        ("http://[::1]:10255", (False, "::1", 10255, True)),
        ("http://localhost:10255", (False, "localhost", 10255, True)),
    ],
)
def test_an_address_is_parsed(text: str, parts: tuple[object, ...]) -> None:
    assert kubelet_address(text) == parts


@pytest.mark.parametrize(
    "host", ["10.0.0.5", "node-1", "[fe80::1]", "localhost.example", "127.0.0.1.example", "127.0.0.1@10.0.0.5"]
)
def test_a_token_is_never_sent_in_clear_over_a_network(host: str) -> None:
    with pytest.raises(ValueError, match="the service account's token in clear"):
        kubelet_address(f"http://{host}:10255")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("http://10.0.0.5:10255", "would send the service account's token in clear"),
        ("https://10.0.0.5", "has no port"),
        ("https://10.0.0.5:", "has no port"),
        ("https://10.0.0.5:0", "has no port"),
        ("https://10.0.0.5:kubelet", "is not an address: Port could not be cast"),
        ("https://10.0.0.5:65536", "is not an address: Port out of range"),
        ("https://[::1:10250", "is not an address: Invalid IPv6 URL"),
        ("https://:10250", "is not an address"),
        ("ftp://10.0.0.5:10250", "is not an address"),
    ],
)
def test_an_invalid_address_is_an_error_with_file_line_key_value_and_fix(
    value: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[pods]\nsource = "kubelet"\nkubelet = "{value}"\n')
    with pytest.raises(ConfigError) as caught:
        AGENT_SETTINGS.load(file, environment={})
    error = caught.value
    assert (error.source, error.key, error.others) == (f"{file}:3", "pods.kubelet", ())
    assert error.reason.startswith(f'"{value}" {reason}')
    assert error.suggestion == 'for example "https://127.0.0.1:10250"'
