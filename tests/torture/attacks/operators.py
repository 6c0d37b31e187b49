"""What reaches the node by other ways: annotations of pods, files that change hands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Target

REQUIRED = "required-plugins.noderesource.dev"


def nothing(target: Target) -> None:
    """The pods themselves are the attack."""
    target.sleep(target.seconds)


GOOD = f"#!{sys.executable}\nimport sys\nsys.exit(1)\n"
EVIL = f"#!{sys.executable}\nopen({{marker!r}}, 'w').write('ran')\n"


def swapped_plugin(target: Target) -> None:
    """The file of a plugin that is started again and again is now good, now one that others may write."""
    folder = Path(target.path).parent
    plugin, marker = folder / "plugins" / "10-guard", folder / "marker"
    evil = folder / "evil"
    evil.write_text(EVIL.format(marker=str(marker)))
    evil.chmod(0o777)
    good = folder / "good"
    while not target.over:
        good.write_text(GOOD)
        good.chmod(0o755)
        os.replace(good, plugin)
        target.sleep(0.002)
        link = folder / "link"
        link.symlink_to(evil)
        os.replace(link, plugin)
        target.count["swaps"] += 1
        target.sleep(0.002)
    target.count["ran"] += marker.exists()


def install(folder: Path) -> None:
    """A plugin that ends at once, so that it is started again and again."""
    (folder / "plugins").mkdir(mode=0o755)
    (folder / "plugins" / "10-guard").write_text(GOOD)
    (folder / "plugins" / "10-guard").chmod(0o755)


def was_not_run(outcome: Outcome) -> None:
    assert outcome.count["swaps"], "nothing was swapped"
    assert not outcome.count.get("ran"), "a file that others may write was run"


ROWS = (
    Attack(
        "required-annotation", "every pod requires 25,000 plugins, in an annotation of 250 kB",
        "refused, with a short error, and quickly", nothing, ("required", "missing", "annotation", "too long"),
        node={
            "annotations": {REQUIRED: "[" + ", ".join(f"nobody{n}" for n in range(20_000)) + "]"},
            "validator": {"enable": True},
        },
    ),
    Attack(
        "swapped-plugin", "the file of a plugin that is started again and again changes hands all the time",
        "checked at each start: what others may write does not run", swapped_plugin,
        node={"plugins": True, "policy": '["10-guard"]\nrestart = "always"\n'}, check=was_not_run, prepare=install,
        short=False,
    ),
)  # fmt: skip
