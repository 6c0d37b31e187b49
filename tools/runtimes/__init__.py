"""Install, run and drive private container runtimes with NRI enabled, for the demo and the tests.

The system's own containerd, apt state and /etc are neither read nor changed, except that missing Debian packages
(runc, CNI plugins) are installed on request. Everything that a runtime leaves behind has one name, `nri-rt-XXXXXXXX`:
its run directory, cgroups and bridge. `python -m tools.runtimes --help` is the command.
"""

from tools.runtimes.containerd import Containerd
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.machine import MissingError
from tools.runtimes.releases import RELEASES, Installed, Release, install

__all__ = ["RELEASES", "Containerd", "Cri", "Installed", "MissingError", "Pod", "Release", "install"]
