"""Keys of a table are set in a TOML text, and every other byte is kept."""

from __future__ import annotations

import difflib
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.config.runtimes.patch import patched
from nri.errors import ConfigError

TABLE = ("plugins", "io.containerd.nri.v1.nri")
HEAD = '[plugins."io.containerd.nri.v1.nri"]'
ON = {"disable": False}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{HEAD}\n  disable = false\n"),
        ("version = 3", f"version = 3\n\n{HEAD}\n  disable = false\n"),
        (f"{HEAD}\ndisable = true # why\n", f"{HEAD}\ndisable = false # why\n"),
        (f'{HEAD}\n\t"disable"=true\n[x]\n', f'{HEAD}\n\t"disable"=false\n[x]\n'),
        (f"{HEAD}", f"{HEAD}\n  disable = false\n"),
        (f"  {HEAD} # ours\n    s = '/s'\n", f"  {HEAD} # ours\n    disable = false\n    s = '/s'\n"),
        ("[ plugins . 'io.containerd.nri.v1.nri' ]\n", "[ plugins . 'io.containerd.nri.v1.nri' ]\n  disable = false\n"),
        (f"a = 1\r\n{HEAD}\r\nx = 2\r\n", f"a = 1\r\n{HEAD}\r\ndisable = false\r\nx = 2\r\n"),
        (f"{HEAD}\ndisable = false\n", f"{HEAD}\ndisable = false\n"),
        (f"{HEAD[1:-1]}.disable = false\n", f"{HEAD[1:-1]}.disable = false\n"),
        (f"[other]\ndisable = true\n{HEAD}.x\n", None),
        ("a = '''\n[plugins]\n'''\n", f"a = '''\n[plugins]\n'''\n\n{HEAD}\n  disable = false\n"),
        (f'{HEAD}\n[plugins."io.containerd.nri.v1.nri".default_validator]\ndisable = true\n',
         f'{HEAD}\n  disable = false\n[plugins."io.containerd.nri.v1.nri".default_validator]\ndisable = true\n'),
        (f"{HEAD}\nl = [\n  [1],\n]\n", f"{HEAD}\ndisable = false\nl = [\n  [1],\n]\n"),
    ],
)  # fmt: skip
def test_only_the_given_keys_change(before: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(ConfigError):
            patched(before, TABLE, ON)
    else:
        assert patched(before, TABLE, ON) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plugins = {}\n", 'change it by hand: [plugins."io.containerd.nri.v1.nri"] /   disable = false'),
        ("plugins.'io.containerd.nri.v1.nri'.disable = true\n", "exists in a form that cannot be changed safely"),
        (f"t = '''\n{HEAD}\n'''\n", "exists in a form that cannot be changed safely"),
        (f'{HEAD}\ndisable = "a\\\\b"\n', "cannot be changed safely"),
        ("plugins = 1\n", "must be a table"),
        ("a = \n", "/f:1"),
        (f"{HEAD}\n{HEAD}\n", "/f"),
    ],
)
def test_unsafe_changes_are_refused_with_the_text_to_write(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        patched(text, TABLE, ON, "/f")
    assert message in str(raised.value)


LINES = st.sampled_from(
    ["version = 2", "# [x]", "", HEAD, f"{HEAD} # x", "disable = true", "  disable = false", "disable = 3", "[x]",
     "[[y]]",
     "k = '''", "'''", 'd = """', '"""', "l = [", "  [1],", "]", "t = {disable = true}", "[plugins]", 'x.y = "a]"',
     '[plugins."io.containerd.nri.v1.nri".z]', "socket_path = '/s'", '"disable" = true']
)  # fmt: skip


@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_a_changed_text_has_the_given_values_and_all_others(lines: list[str], end: str) -> None:
    before = end.join(lines)
    values = {"disable": False, "plugin_request_timeout": "3s"}
    try:
        after = patched(before, TABLE, values)
    except ConfigError:
        return
    was, changed = tomllib.loads(before), tomllib.loads(after)
    was.setdefault("plugins", {}).setdefault(TABLE[1], {}).update(values)
    assert changed == was
    tree_after = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    removed = [
        line for tag, start, stop, _, _ in tree_after if tag != "equal" for line in before.splitlines()[start:stop]
    ]
    assert all("disable" in line for line in removed)
    assert patched(after, TABLE, values) == after
