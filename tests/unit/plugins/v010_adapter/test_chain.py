"""The chain of a node's programs: its file, order and timeout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConfigError
from nri.plugins.v010_adapter.chain import ChainError, Listing, ProgramChain, ProgramEntry, read_listing
from tests.support.v010 import Node

ABOUT = {"state": "create", "id": "c", "spec": {"resources": None}}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def chain(node: Node, message: list[str] | None = None, **options: Any) -> ProgramChain:
    message = [] if message is None else message
    options = {"timeout_s": 10.0, "max_bytes": 1 << 20, **options}
    return ProgramChain(str(node.conf), str(node.programs), tell=message.append, **options)


def test_a_file_names_programs_with_any_configuration(node: Node) -> None:
    node.write({"version": "0.1", "plugins": [{"type": "a", "conf": [1, {"b": None}]}, {"type": "/opt/b"}]})
    assert read_listing(str(node.conf)) == Listing(
        "0.1", (ProgramEntry("a", {"conf": [1, {"b": None}]}), ProgramEntry("/opt/b", {}))
    )


def test_without_a_file_there_are_no_programs(node: Node) -> None:
    assert read_listing(str(node.conf)) == Listing("0.1", ())
    assert chain(node).pass_through(ABOUT, None) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", r"conf\.json: not JSON: "),
        ("[]", r"conf\.json: expected an object"),
        ('{"version": 1}', r"conf\.json: version: 1 is not a string"),
        ('{"plugins": {}}', r"conf\.json: plugins: expected a list"),
        ('{"plugins": ["a"]}', r"conf\.json: plugins\[0\]: expected an object"),
        ('{"plugins": [{"type": "a"}, {"conf": 1}]}', r"plugins\[1\]\.type: expected the name of a program"),
        ('{"plugins": [{"type": "../a"}]}', r"plugins\[0\]\.type: '\.\./a' is neither a name nor an absolute path"),
        (" " * (1 << 20) + "{}", r"conf\.json: more than 1 MiB"),
        ("[" * 100_000, r"conf\.json: not JSON: "),
    ],
)
def test_a_mistake_in_the_file_is_an_error_with_its_position(node: Node, text: str, reason: str) -> None:
    node.write(text)
    with pytest.raises(ConfigError, match=reason):
        read_listing(str(node.conf))


@pytest.mark.timeout(20)
def test_a_pipe_instead_of_the_file_is_an_error(node: Node) -> None:
    os.mkfifo(node.conf)
    with pytest.raises(ConfigError, match=r"conf\.json: cannot be read: not a regular file"):
        read_listing(str(node.conf))


def test_a_folder_instead_of_the_file_is_an_error(node: Node) -> None:
    node.conf.mkdir()
    with pytest.raises(ConfigError, match=r"conf\.json: cannot be read: Is a directory"):
        read_listing(str(node.conf))


def test_each_program_receives_the_results_of_earlier_programs(node: Node) -> None:
    node.name(("recorder", {"metadata": {"k": "v"}}), "recorder")
    results = chain(node).pass_through(ABOUT, None)
    first, second = node.requests()
    assert "results" not in first
    assert (
        second["results"]
        == results[:1]
        == [{"plugin": "recorder", "version": "0.1", "error": "", "metadata": {"k": "v"}}]
    )
    assert (first["conf"], "conf" in second, second["id"], second["version"]) == (
        {"metadata": {"k": "v"}}, False, "c", "0.1",
    )  # fmt: skip


def test_an_error_ends_the_chain_with_the_programs_name(node: Node) -> None:
    node.name("recorder", ("recorder", {"error": "no"}), "recorder")
    with pytest.raises(ChainError, match=r"^plugin: recorder: no$"):
        chain(node).pass_through(ABOUT, None)
    assert len(node.requests()) == 2


def test_an_invalid_file_is_logged_and_the_last_valid_file_is_kept(node: Node) -> None:
    lines: list[str] = []
    node.name("recorder")
    running = chain(node, lines)
    running.pass_through(ABOUT, None)
    node.write("{")
    assert len(running.pass_through(ABOUT, None)) == 1
    assert ["not JSON" in line and "the last valid content stays in force" in line for line in lines] == [True]
    node.name("recorder", "recorder")
    assert len(running.pass_through(ABOUT, None)) == 2


def test_a_program_is_found_by_path_and_then_in_the_folder(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.program("mine", """echo '{"plugin": "of the folder"}'""")
    node.name("mine")
    assert chain(node).pass_through(ABOUT, None)[0]["plugin"] == "of the folder"
    other = Node(tmp_path / "other") if (tmp_path / "other").mkdir() is None else node
    other.program("mine", """echo "{\\"plugin\\": \\"of PATH\\", \\"metadata\\": {\\"path\\": \\"$PATH\\"}}" """)
    monkeypatch.setenv("PATH", f"{other.programs}:{os.environ['PATH']}")
    (result,) = chain(node).pass_through(ABOUT, None)
    assert result["plugin"] == "of PATH"
    assert result["metadata"]["path"].endswith(f":{node.programs}")


def test_an_empty_path_is_not_the_working_directory(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(node.programs)
    monkeypatch.setenv("PATH", "")
    node.name("recorder")
    running = ProgramChain(str(node.conf), str(tmp_path), timeout_s=1.0, max_bytes=100, tell=print)
    with pytest.raises(ChainError, match=r'exec: "recorder": executable file not found in \$PATH'):
        running.pass_through(ABOUT, None)


def test_the_chain_has_the_timeout_of_the_request(node: Node) -> None:
    node.program("slow", "sleep 600")
    node.name("recorder", "slow")
    with pytest.raises(ChainError, match=r"plugin: slow: the program did not end within [\d.]+ s"):
        chain(node).pass_through(ABOUT, 2.0)
    with pytest.raises(ChainError, match=r"plugin: recorder: no time left"):
        chain(node).pass_through(ABOUT, 0.0)
    node.name("slow")
    with pytest.raises(ChainError, match=r"did not end within 0\.2 s"):
        chain(node, timeout_s=0.2).pass_through(ABOUT, None)


def test_a_result_counts_with_any_exit_code_which_is_logged(node: Node) -> None:
    lines: list[str] = []
    node.name(("recorder", {"code": 5}))
    assert len(chain(node, lines).pass_through(ABOUT, None)) == 1
    assert lines == ["recorder ended with exit code 5; its result is used"]
