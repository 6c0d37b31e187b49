"""Koordinator's profile: what koordlet does on a node.

Hooks, and what strategies decide, are pure and in `nri.policies.koordinator`; here is what brings them to a machine.
Reading order: `profile` (the value), `documents` (NodeSLO and others as rules), `node` (what the machine adds to them),
`strategies`, then standalone mode: `reconcile`, `network` with `traffic` and `terway`; `hook_server`, Koordinator's
own protocol; `annotations`, for what a pod's author got wrong.
"""

from nri.agent.profiles.koordinator.profile import PROFILE

__all__ = ["PROFILE"]
