"""The profile of openEuler's rubik: online pods keep their latency while offline pods use the rest of the node.

Reading order: `configuration`, rubik's file as the agent's settings and as the document that services go by; `pods`,
pods and annotations as the services read them; `services`, what samples and writes; `profile`, all of it as one value.
Decisions are in `nri.agent.rubik.decisions`, pure.
"""

from nri.agent.rubik.profile import PROFILE

__all__ = ["PROFILE"]
