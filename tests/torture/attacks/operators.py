"""What reaches the node by other ways: annotations of pods, files that change hands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Target

RESTARTED = {"plugins": True, "policy": '["10-guard"]\nrestart = "always"\n'}
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
    assert not outcome.count.get("ran"), "a file that others may write was used"


def swapped_drop_in(target: Target) -> None:
    """The drop-in of a plugin is now the operator's, now one that others may write."""
    folder = Path(target.path).parent / "conf.d"
    while not target.over:
        for mode, text in ((0o644, "good: 1\n"), (0o666, "evil: 1\n")):
            new = folder / "new"
            new.write_text(text)
            new.chmod(mode)
            os.replace(new, folder / "10-guard.conf")
            target.count["swaps"] += 1
            target.sleep(0.003)
    target.count["ran"] += (folder.parent / "marker").exists()


#: A plugin that is started again and again, and tells if it was configured with what others may write.
CONFIGURED = f"""#!{sys.executable}
import os, sys
import nri
class Guard(nri.Plugin):
    def configure(self):
        if getattr(self.config, "evil", 0):
            open(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/marker", "w").close()
        os._exit(1)
    class Config:
        good: int = 0
        evil: int = 0
    def run_pod_sandbox(self, pod): ...
Guard.main()
"""


def install_configured(folder: Path) -> None:
    """That plugin, with a drop-in."""
    install(folder)
    (folder / "plugins" / "10-guard").write_text(CONFIGURED)
    (folder / "conf.d").mkdir(mode=0o755)
    (folder / "conf.d" / "10-guard.conf").write_text("good: 1\n")


ROWS = (
    Attack(
        "required-annotation",
        "every pod requires 25,000 plugins, in an annotation of 250 kB",
        "refused, with a short error, and quickly",
        nothing,
        ("required", "missing", "annotation", "too long"),
        node={
            "annotations": {REQUIRED: "[" + ", ".join(f"nobody{n}" for n in range(20_000)) + "]"},
            "validator": {"enable": True},
            "timeout_s": 0.25,
        },
    ),
    Attack(
        "swapped-plugin",
        "the file of a plugin that is started again and again changes hands all the time",
        "checked at each start: what others may write does not run",
        swapped_plugin,
        node=RESTARTED,
        check=was_not_run,
        prepare=install,
        short=False,
    ),
    Attack(
        "swapped-drop-in",
        "the drop-in of such a plugin changes hands all the time",
        "what others may write is not given to it",
        swapped_drop_in,
        node=RESTARTED,
        check=was_not_run,
        prepare=install_configured,
        short=False,
    ),
)
