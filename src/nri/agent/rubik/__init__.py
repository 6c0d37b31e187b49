"""The profile of openEuler's rubik: online pods keep their latency while offline pods use the rest of the node.

One module for each service: what it reads of the configuration file and of annotations, what it decides, its hook, and
its rounds. `profile` has the rows, `settings` reads the file; `service` and `pods` have what services share. The
differences from rubik are in docs/deviations.md.
"""

from nri.agent.rubik.profile import PROFILE

__all__ = ["PROFILE"]
