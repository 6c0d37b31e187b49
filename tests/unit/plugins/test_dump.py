"""Messages as lines of YAML, which a YAML parser reads back."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from nri.api import messages as m
from nri.plugins.dump import tree_of, yaml_lines
from nri.testing import make_container

TEXTS = st.text() | st.sampled_from(
    ["yes", "No", "~", "", "1e3", "0x1", "a: b", "a:", "a #b", "- a", "*a", "12:30", "<<", "="]
)
TREES = st.recursive(
    TEXTS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(TREES)
def test_a_yaml_parser_reads_the_written_lines(tree: object) -> None:
    lines = yaml_lines(tree)
    assert [line for line in lines if not line.isprintable()] == []
    assert yaml.safe_load("\n".join(lines)) == tree


def test_the_format_equals_the_go_librarys() -> None:
    container = make_container(name="app", id="c1")
    container.env.append("A=b c")
    container.mounts.add(destination="/x", source="/y", type="bind", options=["ro"])
    container.linux.resources.cpu.shares.value = 0
    container.linux.resources.memory.limit.value = 5
    container.state = m.ContainerState.CONTAINER_RUNNING
    container.annotations["yes"] = "true"
    lines = yaml_lines(tree_of(container))
    expected = """
env:
- A=b c
id: c1
linux:
  resources:
    cpu:
      shares: {}
    memory:
      limit:
        value: 5
mounts:
- destination: /x
  options:
  - ro
  source: /y
  type: bind
name: app
"""
    assert expected.strip() in "\n".join(lines)
    assert '  "yes": "true"' in lines
    assert "state: 3" in lines


def test_bytes_are_base64() -> None:
    assert tree_of({"a": b"\x00\xff"}) == {"a": "AP8="}
