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
    target.count["waited"] += 1
    target.sleep(target.seconds)


#: Who is not root.
NOBODY = 65534
GOOD = f"#!{sys.executable}\nimport sys\nsys.exit(1)\n"
EVIL = f"#!{sys.executable}\nopen({{marker!r}}, 'w').write('ran')\n"


def install_linked(folder: Path) -> None:
    """A plugin that ends at once; it is a link, and its way leads through a folder of somebody else."""
    marker = folder / "marker"
    for name, text, owner in (("good", GOOD, 0), ("foreign/evil", EVIL.format(marker=str(marker)), NOBODY)):
        (folder / name).mkdir(mode=0o755, parents=True)
        (folder / name / "plugin").write_text(text)
        (folder / name / "plugin").chmod(0o755)
        for path in (folder / name, folder / name / "plugin"):
            os.chown(path, owner, owner)
    os.chown(folder / "foreign", NOBODY, NOBODY)
    (folder / "foreign" / "now").symlink_to(folder / "good")
    (folder / "plugins").mkdir(mode=0o755)
    (folder / "plugins" / "10-guard").symlink_to(folder / "foreign" / "now" / "plugin")


def swapped_plugin(target: Target) -> None:
    """The owner of that folder has the way lead now to root's plugin, now to his own."""
    folder = Path(target.path).parent
    foreign = folder / "foreign"
    while not target.over:
        for where in (foreign / "evil", folder / "good"):
            link = foreign / "new"
            link.symlink_to(where)
            os.replace(link, foreign / "now")
            target.count["swaps"] += 1
            target.sleep(0.002)
    target.count["ran"] += (folder / "marker").exists()


def was_not_run(outcome: Outcome) -> None:
    assert outcome.count["swaps"], "nothing was swapped"
    assert not outcome.count.get("ran"), "a file of another user was used"


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
    (folder / "plugins").mkdir(mode=0o755)
    (folder / "plugins" / "10-guard").write_text(CONFIGURED)
    (folder / "plugins" / "10-guard").chmod(0o755)
    (folder / "conf.d").mkdir(mode=0o755)
    (folder / "conf.d" / "10-guard.conf").write_text("good: 1\n")


ROWS = (
    Attack(
        "required-annotation",
        "every pod requires 20,000 plugins, in an annotation of 250 kB",
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
        "on the way to a plugin that is started again and again, a link of another user changes all the time",
        "not started: others decide on the way",
        swapped_plugin,
        node=RESTARTED,
        check=was_not_run,
        prepare=install_linked,
        root=True,
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
