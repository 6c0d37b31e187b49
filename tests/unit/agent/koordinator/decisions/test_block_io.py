"""Limits by disk."""

import pytest

from nri.agent.koordinator.decisions import block_io


def test_disks_have_a_value_of_each_knob() -> None:
    given_ = {"enable": True, "blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readBPS": 1048576}}]}
    (disk,) = block_io.parse(given_)
    assert block_io.wanted([("8:0", disk)], ["8:0"]) == {
        "io.read_iops": {"8:0": -1},
        "io.write_iops": {"8:0": -1},
        "io.read_bps": {"8:0": 1048576},
        "io.write_bps": {"8:0": -1},
        "io.device_weight": {"8:0": 100},
    }
    assert block_io.parse({**given_, "enable": False}) == []
    for wrong in ({"readBPS": -1}, {"ioWeightPercent": 0}, {"ioWeightPercent": 101}, {"readBPS": "1"}):
        with pytest.raises(ValueError, match="blkioQOS"):
            block_io.parse({"enable": True, "blocks": [{"ioCfg": wrong}]})


def test_what_is_in_force_and_not_asked_for_goes() -> None:
    found = block_io.wanted([], ["8:16"])
    assert {knob: values["8:16"] for knob, values in found.items()} == {
        **dict.fromkeys(("io.read_iops", "io.write_iops", "io.read_bps", "io.write_bps"), -1),
        "io.device_weight": 100,
    }


def test_a_model_of_the_users_own_counts_only_if_it_is_whole() -> None:
    numbers = dict.fromkeys(
        ("modelReadBPS", "modelReadSeqIOPS", "modelReadRandIOPS", "modelWriteBPS", "modelWriteSeqIOPS"), 5
    )
    models = [
        block_io.parse_root({"enable": True, "blocks": [{"name": "x", "ioCfg": {"enableUserModel": True, **given}}]})[0]
        for given in (numbers, {**numbers, "modelWriteRandIOPS": 6})
    ]
    assert models[0].model == ""
    assert models[1].model == "ctrl=user model=linear rbps=5 rseqiops=5 rrandiops=5 wbps=5 wseqiops=5 wrandiops=6"
    assert block_io.parse_root({"blocks": [{"name": "x"}]}) == []
