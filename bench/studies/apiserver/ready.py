"""A runtime with pods and containers ready: `python -m bench.studies.apiserver.ready SOCKET FILE`.

FILE has a SynchronizeRequest that was recorded with another runtime. `nri.adaptation` serves it unchanged, so that a
plugin's first view shows the cost of NRI without that of collecting a runtime's state. Prints `{"event": "ready"}`
when it listens; ends with its stdin.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nri.adaptation import Adaptation
from nri.api import messages as m


def main() -> None:
    """Serve until stdin ends."""
    socket, file = sys.argv[1:3]
    state = m.SynchronizeRequest.FromString(Path(file).read_bytes())
    pods, containers = list(state.pods), list(state.containers)
    adaptation = Adaptation(
        "ready",
        "1",
        synchronize=lambda: (pods, containers),
        update=lambda updates: [],
        socket_path=socket,
        plugin_path="/nonexistent",
        policy_path=None,
    )
    adaptation.start()
    sys.stdout.write('{"event": "ready"}\n')
    sys.stdout.flush()
    sys.stdin.read()
    adaptation.stop()


if __name__ == "__main__":
    main()
