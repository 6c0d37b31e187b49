"""A program as a plugin of a trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nri.cli.errors import Failure
from nri.cli.support.trial.contestants import Contestant
from nri.cli.support.trial.programs import program
from nri.config import Source
from nri.testing import FakeRuntime

PLUGIN = """
import nri
class P(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("A", self.config)
P.main()
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_it_takes_part_under_the_name_of_its_file_with_its_configuration(tmp_path: Path) -> None:
    target = write(tmp_path / "40-prog", f"#!{sys.executable}\n{PLUGIN}")
    with FakeRuntime() as runtime:
        with program(runtime, Contestant("40", target, Source("c", "1"))):
            assert runtime.create_container().env == {"A": "1"}
            assert runtime.health("40-prog").pid
        assert runtime.create_container().env == {}, "it ends with the context"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho no such luck >&2\nexit 3\n", "does not take part: exit code 3: no such luck"),
        ("#!/nowhere/sh\n", "cannot be run: No such file or directory"),
        ("\0asm\1\0\0\0", "40-prog: it is WebAssembly, which only a runtime loads"),
    ],
)
def test_a_program_that_is_no_plugin_is_told_in_a_line(tmp_path: Path, text: str, reason: str) -> None:
    target = write(tmp_path / "40-prog", text)
    with FakeRuntime() as runtime, pytest.raises(Failure, match=reason), program(runtime, Contestant("40", target)):
        pass


def test_a_program_that_lives_and_never_registers_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.cli.support.trial.programs._STEPS", 2)
    target = write(tmp_path / "40-prog", "#!/bin/sh\nsleep 30\n")
    with FakeRuntime() as runtime, pytest.raises(Failure, match="does not take part: it does not register"):
        with program(runtime, Contestant("40", target)):
            pass
