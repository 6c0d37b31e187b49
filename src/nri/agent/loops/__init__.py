"""The strategies of Koordinator's QoS manager, called by a timer: samples of the machine in, writes and evictions out.

What they decide is `nri.policies.koordinator.loops`, pure. Reading order: `strategy` (what NodeSLO asks for),
`samples`, `moment` (all that a decision may look at), the strategies `block_io`, `cpu_burst`, `cpu_suppress`, `evict`
and `memory_qos`, `evictor`, and `timer`, which has the thread.
"""

from nri.agent.loops.timer import Loops

__all__ = ["Loops"]
