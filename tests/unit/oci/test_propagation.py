"""The propagation of the host's mounts."""

from pathlib import Path

import pytest

from nri.oci import MountPoint, MountTable

TEXT = r"""
22 27 0:21 / /proc rw,nosuid shared:5 - proc proc rw
27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 27 0:25 / /run/with\040blank rw shared:7 master:1 - tmpfs tmpfs rw
31 27 0:26 / /slave rw unbindable master:2 - tmpfs tmpfs rw
32 27 0:27 / /data rw shared:9 - tmpfs tmpfs rw
33 32 0:28 / /data rw - tmpfs tmpfs rw
not a mount
"""


@pytest.mark.parametrize(
    ("path", "actual"),
    [
        ("/", ""),
        ("/etc/hosts", ""),
        ("/proc", "rshared"),
        ("/proc/1/../2", "rshared"),
        ("/process", ""),
        ("/run/with blank/x", "rshared"),
        ("/slave/x", "rslave"),
        ("/data/x", ""),
        ("tmpfs", None),
        ("", None),
    ],
)
def test_the_mount_of_a_path_determines_its_propagation(path: str, actual: str | None) -> None:
    assert MountTable.parse(TEXT).propagation(path) == actual


def test_in_reference_mode_prefixes_count_as_parents() -> None:
    table = MountTable.parse(TEXT)
    assert table.propagation("/process", by_prefix=True) == "rshared"
    assert table.propagation("/data", by_prefix=True) == "rshared"
    assert table.propagation("tmpfs", by_prefix=True) is None


def test_the_mounts_of_this_process_are_read() -> None:
    assert any(mount.path == "/proc" for mount in MountTable.of_host().mounts)


def test_a_missing_mount_table_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MountTable.of_host(str(tmp_path / "none"))


def test_a_private_mount_has_no_propagation() -> None:
    assert MountPoint("/").propagation == ""
