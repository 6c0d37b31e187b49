"""Settings from files, environment and flags: every value has its origin, all mistakes are reported together."""

import socket
from pathlib import Path

import pytest

from nri.agent.settings import AGENT_SETTINGS, load_each, socket_of
from nri.config.complaint import single_errors
from nri.errors import ConfigError


def test_a_later_source_wins_and_origins_name_file_line_variable_or_flag(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text('socket = "/one"\n[nri]\nindex = "10"\nname = "one"\n[gates]\nResctrl = true\n')
    two.write_text('[nri]\nname = "two"\n')
    loaded = AGENT_SETTINGS.load(
        one,
        two,
        flags={"modes": ("--mode", ["nri"]), "nri.socket": ("--socket-path", "/n")},
        environment={"NRI_AGENT_SOCKET": "/env", "NRI_SOCKET": "/lost", "NODE_NAME": "node-7", "NRI_AGENT_ROOT": "/h"},
    )
    settings, origins = loaded.settings, loaded.origins
    assert (settings.nri.index, origins["nri.index"]) == ("10", f"{one}:3")
    assert (settings.nri.name, origins["nri.name"]) == ("two", f"{two}:2")
    assert (settings.socket, origins["socket"]) == ("/env", "NRI_AGENT_SOCKET")
    assert (settings.nri.socket, origins["nri.socket"]) == ("/n", "--socket-path")
    assert (settings.modes, origins["modes"]) == (("nri",), "--mode")
    assert (settings.rules.node_name, settings.root) == ("node-7", Path("/h"))
    assert settings.gates == {"Resctrl": True}
    assert loaded.files == (str(one), str(two))


def test_all_mistakes_of_all_sources_are_reported_with_place_key_value_and_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'modes = ["nri", "standlone"]\ndisabled_stages = ["PreRunPodSandox"]\nfailure_policy = "ignore"\n'
        '[gates]\nGPUEnvInjct = true\nResctrl = 1\n[nri]\nindx = "10"\n'
    )
    with pytest.raises(ConfigError) as caught:
        AGENT_SETTINGS.load(path, tmp_path / "missing.toml", environment={"NRI_AGENT_LOG_LEVEL": "loud"})
    lines = [str(entry) for entry in single_errors(caught.value)]
    assert len(lines) == 8
    for line, words in zip(
        lines,
        [
            (f"{path}:1: modes[1]", '"standlone"', 'did you mean "standalone"?'),
            (f"{path}:2: disabled_stages[0]", 'did you mean "PreRunPodSandbox"?'),
            (f"{path}:3: failure_policy", 'did you mean "Ignore"?'),
            (f"{path}:5: gates.GPUEnvInjct", 'did you mean "GPUEnvInject"?'),
            (f"{path}:6: gates.Resctrl", "expected true or false, not 1"),
            (f"{path}:8: nri.indx", "unknown key", 'did you mean "index"?'),
            ("missing.toml", "cannot read it"),
            ("NRI_AGENT_LOG_LEVEL: log_level", "loud"),
        ],
        strict=True,
    ):
        assert all(word in line for word in words), line


RUBIK = '{"agent": {"informerType": "nri", "enabledFeatures": ["psi"]}, "psi": {"resource": ["cpu"]}}'


def test_each_of_two_profiles_has_its_own_files_name_and_socket(tmp_path: Path) -> None:
    both, own_file, foreign_file = (str(tmp_path / name) for name in ("both.toml", "mine.toml", "config.json"))
    Path(both).write_text(f'socket = "{tmp_path}/agent.sock"\nlog_level = "debug"\n[http]\naddress = "127.0.0.1:9"\n')
    Path(own_file).write_text('profile = "koordinator"\n[gates]\nResctrl = true\n')
    Path(foreign_file).write_text(RUBIK)
    first, second = (
        entry.settings
        for entry in load_each(
            ["koordinator", "rubik"],
            [both, own_file, foreign_file],
            {"rules.path": ("--rules", "/r"), "nri.index": ("--set", "20")},
        )
    )
    assert (first.profile, first.gates, first.rules.path) == ("koordinator", {"Resctrl": True}, Path("/r"))
    assert (second.profile, second.gates, second.rules.path) == ("rubik", {"psi": True}, Path(foreign_file))
    assert [(entry.nri.index, entry.nri.name) for entry in (first, second)] == [
        ("20", "nri-agent"),
        ("20", "nri-agent-rubik"),
    ]
    assert [Path(entry.socket).name for entry in (first, second)] == ["agent.sock", "agent-rubik.sock"]
    assert [(entry.http.address, entry.log_level) for entry in (first, second)] == [
        ("127.0.0.1:9", "debug"),
        ("", "info"),
    ]
    requested = AGENT_SETTINGS.load(both, foreign_file).settings
    assert socket_of(requested) == f"{tmp_path}/agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(second.socket)
        assert socket_of(requested) == f"{tmp_path}/agent.sock", "nobody listens there"
        listener.listen()
        assert socket_of(requested) == second.socket
    with pytest.raises(ConfigError, match=r"config.json: profile: is rubik, but --profile does not name it"):
        load_each(["koordinator"], [foreign_file], {})
