"""The strategies of a profile, called by a timer: samples of the machine in, writes and evictions out.

Reading order: `samples`, `round` (all that a decision may look at), `strategy` (what one declares), `evictor`, and
`timer`, which has the thread. The strategies themselves are in the profile.
"""

from nri.agent.loops.timer import Loops

__all__ = ["Loops"]
