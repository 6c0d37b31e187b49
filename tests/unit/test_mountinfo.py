"""Parsing of mountinfo lines."""

from nri.mountinfo import OWN_MOUNT_TABLE, Mount, parse


def test_a_mount_has_device_path_tags_type_and_options() -> None:
    line = "30 27 0:25 / /sys/fs/cgroup ro,nosuid shared:7 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
    expected = Mount("0:25", "/sys/fs/cgroup", ("shared:7", "master:1"), "cgroup2", ("rw", "nsdelegate"))
    assert list(parse([line])) == [expected]


def test_escaped_characters_of_a_path_are_decoded() -> None:
    assert [mount.path for mount in parse([r"1 1 0:1 / /a\040b\011c\012d\134040 rw - ext4 x rw"])] == [
        "/a b\tc\nd\\040"
    ]


def test_invalid_lines_are_skipped_and_truncated_lines_have_no_type() -> None:
    assert list(parse(["", "not a mount", "1 1 0:1 / / rw"])) == [Mount("0:1", "/", (), "", ())]


def test_the_table_of_this_process_has_its_root() -> None:
    with open(OWN_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as table:
        assert any(mount.path == "/" and mount.kind and mount.options for mount in parse(table))
