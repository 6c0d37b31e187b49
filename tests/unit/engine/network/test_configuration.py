"""Which network a folder of CNI configurations stands for."""

import json
from pathlib import Path

import pytest

from nri.engine.network.configuration import find_network, parse_network


def test_the_first_usable_file_is_taken_and_the_others_before_it_are_named(tmp_path: Path) -> None:
    assert find_network(tmp_path)[1] == [f"{tmp_path}: it has no network configuration (.conflist, .conf, .json)"]
    (tmp_path / "00-notes.txt").write_text("not one")
    (tmp_path / "05-broken.conf").write_text("{")
    (tmp_path / "10-one.conf").write_text('{"cniVersion": "0.4.0", "name": "one", "type": "bridge", "bridge": "b"}')
    (tmp_path / "20-two.conflist").write_text('{"name": "two", "plugins": [{"type": "ptp"}]}')
    network, complaints = find_network(tmp_path)
    assert network is not None
    assert (network.name, network.version, network.plugins[0]["bridge"]) == ("one", "0.4.0", "b")
    assert len(complaints) == 1 and "05-broken.conf" in complaints[0]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert find_network(tmp_path / "none") == (None, [f"{tmp_path}/none: No such file or directory"])


def test_of_several_versions_the_newest_known_is_spoken() -> None:
    data = {"name": "n", "cniVersions": ["0.3.1", "1.1.0", "9.0.0"], "plugins": [{"type": "t"}], "disableCheck": True}
    network = parse_network(json.dumps(data))
    assert (network.version, network.disable_check) == ("1.1.0", True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not a JSON object"),
        ('{"name": "n"}', "at least one plugin"),
        ('{"name": "n", "plugins": []}', "at least one plugin"),
        ('{"name": "n", "plugins": [{}]}', "plugin's 'type'"),
        ('{"name": "n", "plugins": [{"type": "../../bin/sh"}]}', "name of a program"),
        ('{"name": "../n", "plugins": [{"type": "t"}]}', "which is not a valid network name"),
        ('{"name": "n", "cniVersion": "2.0.0", "type": "t"}', "'2.0.0'"),
        ('{"name": "n", "cniVersions": 7, "type": "t"}', "'cniVersion' is 7"),
        ('{"name": "n", "type": "t", "ipam": "host-local"}', "'ipam' of t is not an object"),
        ('{"name": "n", "type": "t", "capabilities": ["dns"]}', "'capabilities' of t is not an object"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_network(text)
