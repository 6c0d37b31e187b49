"""The profile of openEuler's rubik: online pods keep their latency while offline pods use spare resources of the node.

Each service is a module with its block of the configuration file, its annotation, its decisions, its hook and its
rounds. `profile` has the rows, `settings` reads the file, `service` and `pods` contain shared code. The differences
from rubik are in docs/deviations-agent.md.
"""

from nri.agent.rubik.profile import PROFILE

__all__ = ["PROFILE"]
