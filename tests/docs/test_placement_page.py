"""The drawings on the placement page are the command's output for the page's pods and policies.

`python -m tests.docs.test_placement_page` writes them anew.
"""

from __future__ import annotations

import json
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


def assert_shown(folder: Path, policy: str, *words: str) -> None:
    """Ask of the page's pods under one of its policies, on a machine of two packages with two nodes each."""
    for file, text in re.findall(r"```yaml file=(\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (folder / file).write_text(text)
    machine = write_machine(folder / "machine", guest())
    arguments = ["--machine", machine, "--policy", folder / policy, "--pods", folder / "pods.yaml"]
    with pytest.raises(SystemExit) as ended:
        main(["placement", *words, *map(str, arguments)])
    assert not ended.value.code


def drawn(name: str, folder: Path) -> str:
    """The picture of one of the page's policies."""
    assert_shown(folder, DRAWINGS[name], "show", "--svg", str(folder / "node.svg"))
    return (folder / "node.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_drawing_is_up_to_date(name: str, tmp_path: Path) -> None:
    file = DOCS / "_static" / "placement" / f"{name}.svg"
    assert file.read_text(encoding="utf-8") == drawn(name, tmp_path), "run: python -m tests.docs.test_placement_page"


def test_the_cpus_on_the_page_equal_those_of_the_drawing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_shown(tmp_path, "policy.yaml", "explain", "shop/db/main", "-o", "json")
    output = json.loads(capsys.readouterr().out)
    shown = dict(re.findall(r"^(Cpus|Mems)_allowed_list:\s+(\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert shown == {"Cpus": output["cpus"], "Mems": output["mems"]}


def write() -> None:
    """Draw all of them."""
    for name in DRAWINGS:
        file = DOCS / "_static" / "placement" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            file.write_text(drawn(name, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    write()
