"""Two specs compared, line by line."""

from typing import Any

from nri.oci import canonical, difference


def lines(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [str(change) for change in difference(old, new)]


def test_equivalent_specs_do_not_differ() -> None:
    assert lines({"hostname": "", "mounts": []}, {"linux": None, "ociVersion": ""}) == []


def test_entries_are_compared_by_name() -> None:
    old = {
        "process": {"env": ["A=1", "B=2"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 1}]},
        "mounts": [{"destination": "/a", "source": "x"}, {"destination": "/b"}, {"destination": "/c"}],
    }
    new = {
        "process": {"env": ["B=3", "C=4"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 2}]},
        "mounts": [{"destination": "/c"}, {"destination": "/a", "source": "y", "options": ["ro"]}],
    }
    assert lines(old, new) == [
        '- process.env[A]: "A=1"',
        '~ process.env[B]: "B=2" -> "B=3"',
        '+ process.env[C]: "C=4"',
        "~ process.rlimits[RLIMIT_CORE].hard: 1 -> 2",
        '~ mounts[/a].source: "x" -> "y"',
        '+ mounts[/a].options: ["ro"]',
        '- mounts[/b]: {"destination": "/b"}',
        '= mounts: ["/a", "/c"] -> ["/c", "/a"]',
    ]


def test_the_order_matters_only_for_mounts() -> None:
    old = {"linux": {"namespaces": [{"type": "pid"}, {"type": "ipc"}], "maskedPaths": ["/a", "/b"]}}
    new = {"linux": {"namespaces": [{"type": "ipc"}, {"type": "pid"}], "maskedPaths": ["/b", "/a"]}}
    assert lines(old, new) == []


def test_entries_of_one_name_are_all_compared() -> None:
    row = {"type": "RLIMIT_CORE", "hard": 1, "soft": 0}
    old, new = {"process": {"rlimits": [row]}}, {"process": {"rlimits": [row, row]}}
    assert lines(old, new) == ['+ process.rlimits[RLIMIT_CORE #2]: {"hard": 1, "soft": 0, "type": "RLIMIT_CORE"}']


def test_lists_without_names_are_compared_by_content() -> None:
    def spec(*paths: str) -> dict[str, Any]:
        return {"hooks": {"poststop": [{"path": path} for path in paths]}}

    assert lines(spec("/a", "/b", "/z"), spec("/a", "/c", "/d", "/z")) == [
        '- hooks.poststop[1]: {"path": "/b"}',
        '+ hooks.poststop[1]: {"path": "/c"}',
        '+ hooks.poststop[2]: {"path": "/d"}',
    ]


def test_other_lists_and_types_are_compared_as_a_whole() -> None:
    old = {"process": {"args": ["a"]}, "x": 1, "y": [], "annotations": {"a.b/c": "1"}}
    new = {"process": {"args": ["a", "b"]}, "x": True, "y": {}, "annotations": {}}
    assert lines(old, new) == [
        "~ x: 1 -> true",
        "~ y: [] -> {}",
        '~ process.args: ["a"] -> ["a", "b"]',
        '- annotations: {"a.b/c": "1"}',
    ]


def test_unusual_keys_are_quoted_and_long_values_cut() -> None:
    old, new = {"annotations": {"a.b/c": "1", "d": "1"}}, {"annotations": {"a.b/c": "x" * 300, "d": "1"}}
    (line,) = lines(old, new)
    assert line.startswith('~ annotations."a.b/c": "1" -> "xxx')
    assert line.endswith("x...")
    assert len(line) < 250
    assert difference(old, new)[0].new == "x" * 300
    assert lines({"ociVersion": "1"}, {"ociVersion": "1", "": 1}) == ['+ "": 1']


def test_deeply_nested_values_are_compared_as_a_whole() -> None:
    def nested(depth: int, value: int) -> dict[str, Any]:
        result: dict[str, Any] = {"x": value}
        for _ in range(depth):
            result = {"x": result}
        return result

    (change,) = difference(nested(300, 1), nested(300, 2))
    assert change.path.count("x") < 30


def test_the_canonical_form_drops_empty_values_and_adds_required_ones() -> None:
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


def test_unknown_keys_are_kept() -> None:
    spec = {"ociVersion": "1", "windows": {"a": []}, "mounts": [{"destination": "/", "x": ""}]}
    assert canonical(spec) == spec


def test_values_of_a_wrong_type_are_kept() -> None:
    spec = {"ociVersion": 1, "mounts": {"a": 1}, "linux": 5, "annotations": ["x"]}
    assert canonical(spec) == spec


def test_a_system_call_has_names() -> None:
    spec = canonical({"linux": {"seccomp": {"syscalls": [{"names": None}]}}})
    assert spec["linux"]["seccomp"] == {"defaultAction": "", "syscalls": [{"names": [], "action": ""}]}
