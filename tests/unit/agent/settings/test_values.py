"""Settings as a whole: contradictions are refused, every key has a description, values are immutable."""

from pathlib import Path
from typing import Any

import pytest

from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.agent.settings.values import NriSettings, PodSettings, ProxySettings
from nri.config import Source, read


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"modes": ()}, "modes is empty"),
        ({"modes": ("nri", "nri")}, "has duplicates"),
        ({"modes": ("standalone",), "pods": PodSettings("nri")}, "requires mode nri or proxy"),
        ({"socket": "/" + "a" * 107}, "longer than the 107 bytes"),
    ],
)
def test_an_invalid_combination_is_refused_with_its_value(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        AgentSettings(**values)


def test_paths_of_sockets_can_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = AgentSettings(socket=Path("agent.sock"), nri=NriSettings(socket="run/nri.sock"))
    assert (settings.socket, settings.nri.socket) == (tmp_path / "agent.sock", f"{tmp_path}/run/nri.sock")


def test_every_key_has_a_description_and_accepts_its_default() -> None:
    listed = AGENT_SETTINGS.known_keys()
    assert [key.key for key in listed if not key.meaning or not key.kind] == []
    for key in listed:
        if key.default:
            assert read(AgentSettings, [Source("f", f"{key.key} = {key.default}", "toml")]) == AgentSettings(), key.key


@pytest.mark.parametrize(
    ("values", "socket"),
    [
        ({}, ""),
        ({"modes": ("standalone",)}, ""),
        ({"modes": ("proxy", "standalone")}, "/run/crio/crio.sock"),
        ({"modes": ("proxy",), "pods": PodSettings(cri="/run/own.sock")}, "/run/own.sock"),
        ({"modes": ("proxy",), "proxy": ProxySettings(runtime_endpoint="")}, ""),
    ],
)
def test_in_proxy_mode_the_cri_socket_defaults_to_the_runtime_behind_the_proxy(
    values: dict[str, Any], socket: str
) -> None:
    assert (
        AgentSettings(**{"proxy": ProxySettings(runtime_endpoint="/run/crio/crio.sock"), **values}).cri_socket == socket
    )


def test_settings_are_immutable_and_comparable() -> None:
    assert AgentSettings() == AgentSettings()
    with pytest.raises(AttributeError):
        AgentSettings().modes = ()  # type: ignore[misc]
