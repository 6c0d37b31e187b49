"""The drawings on the page about placement are what the command draws of the page's own pods and policies.

`python -m tests.docs.test_placement_page` writes them anew.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from nri.cli.main import main
from tests.support.placement import guest, write_machine

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "howto" / "placement.md"
#: Drawing -> the policy of the page that it shows.
DRAWINGS = {"topology-aware": "policy.yaml", "balloons": "balloons.yaml"}


def drawn(name: str, folder: Path) -> str:
    """The picture of one of the page's policies, on a machine of two packages with two nodes each."""
    for file, text in re.findall(r"```yaml file=(\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (folder / file).write_text(text)
    machine = write_machine(folder / "machine", guest())
    arguments = ["--machine", machine, "--policy", folder / DRAWINGS[name], "--pods", folder / "pods.yaml"]
    with pytest.raises(SystemExit) as ended:
        main(["placement", "show", "--svg", str(folder / "node.svg"), *map(str, arguments)])
    assert not ended.value.code
    return (folder / "node.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_what_the_command_draws(name: str, tmp_path: Path) -> None:
    file = DOCS / "_static" / "placement" / f"{name}.svg"
    assert file.read_text(encoding="utf-8") == drawn(name, tmp_path), "run: python -m tests.docs.test_placement_page"


def write() -> None:
    """Draw all of them."""
    for name in DRAWINGS:
        file = DOCS / "_static" / "placement" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            file.write_text(drawn(name, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    write()
