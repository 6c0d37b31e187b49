"""Get, run and drive private container runtimes with NRI switched on: for the demo and the tests.

Rules: nothing of the system's own containerd, apt state or /etc is read or changed, except
that missing Debian packages (runc, CNI plugins) are installed when this is asked for.
Everything that a runtime leaves behind carries one name, `nri-rt-XXXXXXXX`: its run
directory, cgroups and bridge; so cleaning up is by name and never by guess.

Reading order: `releases` (which runtimes), `machine` (what must be there), `mirror` and `debs`
or `gobuild` (where binaries come from), `images`, `config`, `daemon` (what those that serve have in common),
`containerd`, `engine` and `proxy` (running ones), `cri` (to drive them), `leftovers` (to clean up).
`python -m tools.runtimes --help` is the command.
"""

from tools.runtimes.containerd import Containerd
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.machine import MissingError
from tools.runtimes.releases import RELEASES, Installed, Release, install

__all__ = ["RELEASES", "Containerd", "Cri", "Installed", "MissingError", "Pod", "Release", "install"]
