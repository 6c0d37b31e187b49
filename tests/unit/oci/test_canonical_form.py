"""Specs in canonical form."""

from nri.oci import canonical


def test_what_is_empty_goes_and_what_is_always_there_comes() -> None:
    spec = {
        "hostname": "",
        "mounts": [],
        "process": {"args": [], "terminal": False, "user": {"umask": 0}, "oomScoreAdj": 0, "rlimits": [{"hard": 1}]},
        "linux": {"resources": {"pids": {}, "unified": {}, "devices": [{"major": 0}]}, "sysctl": None},
        "hooks": {"poststop": [{}]},
        "annotations": {"a": ""},
    }
    assert canonical(spec) == {
        "ociVersion": "",
        "process": {
            "user": {"uid": 0, "gid": 0, "umask": 0}, "cwd": "", "oomScoreAdj": 0,
            "rlimits": [{"type": "", "hard": 1, "soft": 0}],
        },
        "linux": {"resources": {"pids": {}, "devices": [{"allow": False, "major": 0}]}},
        "hooks": {"poststop": [{"path": ""}]},
        "annotations": {"a": ""},
    }  # fmt: skip


def test_what_is_not_known_stays_everywhere() -> None:
    spec = {"ociVersion": "1", "windows": {"a": []}, "mounts": [{"destination": "/", "x": ""}]}
    assert canonical(spec) == spec


def test_values_of_the_wrong_kind_stay() -> None:
    spec = {"ociVersion": 1, "mounts": {"a": 1}, "linux": 5, "annotations": ["x"]}
    assert canonical(spec) == spec


def test_a_system_call_has_names() -> None:
    made = canonical({"linux": {"seccomp": {"syscalls": [{"names": None}]}}})
    assert made["linux"]["seccomp"] == {"defaultAction": "", "syscalls": [{"names": [], "action": ""}]}
