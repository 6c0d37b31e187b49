"""The network of a folder of CNI configurations."""

import json
from pathlib import Path

import pytest

from nri.engine.network.configuration import find_networks, parse_network


def test_the_first_valid_file_is_used_and_invalid_ones_before_it_are_reported(tmp_path: Path) -> None:
    (complaint,) = find_networks(tmp_path)[1]
    assert complaint == f"{tmp_path}: the folder has no network configuration (.conflist, .conf, .json)"
    (tmp_path / "00-notes.txt").write_text("not one")
    (tmp_path / "05-broken.conf").write_text("{")
    (tmp_path / "10-one.conf").write_text('{"cniVersion": "0.4.0", "name": "one", "type": "bridge", "bridge": "b"}')
    (tmp_path / "20-two.conflist").write_text('{"name": "two", "plugins": [{"type": "ptp"}]}')
    (network,), complaints = find_networks(tmp_path)
    assert (network.name, network.version, network.plugins[0]["bridge"]) == ("one", "0.4.0", "b")
    assert len(complaints) == 1 and "05-broken.conf" in complaints[0]


@pytest.mark.parametrize(
    ("limit", "names"), [(1, ["one"]), (2, ["one", "two"]), (3, ["one", "two"]), (0, ["one", "two"])]
)
def test_the_number_of_networks_is_limited(tmp_path: Path, limit: int, names: list[str]) -> None:
    (tmp_path / "10-one.conf").write_text('{"name": "one", "type": "ptp"}')
    (tmp_path / "15-broken.conf").write_text("{")
    (tmp_path / "20-two.conf").write_text('{"name": "two", "type": "ptp"}')
    networks, complaints = find_networks(tmp_path, limit)
    assert [network.name for network in networks] == names
    assert len(complaints) == len(names) - 1


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert find_networks(tmp_path / "none") == ([], [f"{tmp_path}/none: No such file or directory"])


def test_of_several_versions_the_newest_known_is_used() -> None:
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
def test_an_invalid_file_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_network(text)
