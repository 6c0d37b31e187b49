"""Limits by disk."""

import pytest

from nri.policies.koordinator.loops import block_io


def test_disks_have_a_value_of_each_knob() -> None:
    given_ = {"enable": True, "blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readBPS": 1048576}}]}
    (disk,) = block_io.parse(given_)
    assert block_io.values([("8:0", disk)]) == {
        "io.read_iops": {"8:0": -1},
        "io.write_iops": {"8:0": -1},
        "io.read_bps": {"8:0": 1048576},
        "io.write_bps": {"8:0": -1},
        "io.cost_weight": {"8:0": 100},
    }
    assert block_io.parse({**given_, "enable": False}) == []
    for wrong in ({"readBPS": -1}, {"ioWeightPercent": 0}, {"ioWeightPercent": 101}, {"readBPS": "1"}):
        with pytest.raises(ValueError, match="blkioQOS"):
            block_io.parse({"enable": True, "blocks": [{"ioCfg": wrong}]})
