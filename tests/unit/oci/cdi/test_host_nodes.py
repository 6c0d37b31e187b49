"""Device nodes as the host has them."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from nri.errors import SpecError
from nri.oci.cdi.format import DeviceNode
from nri.oci.cdi.host_nodes import complete


def node(path: str, **given: Any) -> Any:
    made = DeviceNode()
    made.path = path
    for key, value in given.items():
        setattr(made, key, value)
    return made


NULL = stat.S_IMODE(os.lstat("/dev/null").st_mode)


def test_what_is_not_given_is_taken_from_the_host() -> None:
    assert complete(node("/dev/null")) == {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": NULL}
    made = complete(node("/dev/mine", hostPath="/dev/null", uid=0, gid=5, fileMode=0o600))
    assert made == {
        "path": "/dev/mine", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600, "uid": 0, "gid": 5,
    }  # fmt: skip


def test_type_and_number_need_no_host() -> None:
    given = {"path": "/dev/none", "type": "c", "major": 7, "minor": 0}
    assert complete(node("/dev/none", type="c", major=7)) == given
    assert complete(node("/dev/null", type="c", major=7, minor=9))["fileMode"] == NULL
    assert complete(node("/none", type="p")) == {"path": "/none", "type": "p", "major": 0, "minor": 0}


def test_a_pipe_has_no_number(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    made = complete(node(str(tmp_path / "pipe")))
    assert made == {"path": str(tmp_path / "pipe"), "type": "p", "major": 0, "minor": 0, "fileMode": 0o600}


@pytest.mark.parametrize(
    ("path", "given", "reason"),
    [
        ("/dev/none", {}, 'CDI device node "/dev/none": No such file or directory'),
        ("/dev/x", {"hostPath": "/etc"}, 'CDI device node "/etc": not a device node'),
        ("/dev/null", {"type": "b"}, 'CDI device node "/dev/null" is of type c, not b'),
    ],
)
def test_a_host_that_lacks_it_is_an_error(path: str, given: Any, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        complete(node(path, **given))
    assert str(caught.value) == reason


def test_the_host_may_be_below_another_root(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "pipe", 0o640)
    assert complete(node("/dev/pipe"), str(tmp_path))["fileMode"] == 0o640


def test_a_major_number_that_is_given_is_kept() -> None:
    assert complete(node("/dev/null", major=5, minor=6)) == {
        "path": "/dev/null", "type": "c", "major": 5, "minor": 6, "fileMode": NULL,
    }  # fmt: skip
