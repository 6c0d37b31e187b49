"""Lines of mountinfo, as kernels write them, taken apart."""

from nri.mountinfo import OWN, Mount, parse


def test_a_mount_has_its_device_its_place_its_tags_and_what_its_file_system_was_mounted_with() -> None:
    line = "30 27 0:25 / /sys/fs/cgroup ro,nosuid shared:7 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
    expected = Mount("0:25", "/sys/fs/cgroup", ("shared:7", "master:1"), "cgroup2", ("rw", "nsdelegate"))
    assert list(parse([line])) == [expected]


def test_blanks_tabs_newlines_and_backslashes_of_a_path_are_what_they_were() -> None:
    assert [mount.path for mount in parse([r"1 1 0:1 / /a\040b\011c\012d\134040 rw - ext4 x rw"])] == [
        "/a b\tc\nd\\040"
    ]


def test_a_line_of_another_form_is_passed_over_and_one_that_was_cut_has_no_file_system() -> None:
    assert list(parse(["", "not a mount", "1 1 0:1 / / rw"])) == [Mount("0:1", "/", (), "", ())]


def test_the_table_of_this_process_has_its_root() -> None:
    with open(OWN, encoding="utf-8", errors="surrogateescape") as table:
        assert any(mount.path == "/" and mount.kind and mount.options for mount in parse(table))
