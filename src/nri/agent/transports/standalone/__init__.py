"""Standalone mode: a reconciler that writes to the machine by itself, for what no runtime asks about, and what drifts.

Reading order: `nri.agent.pods.running` (pods of the API as running pods), `pods` (a round over all pods, with the shape
of the profile's part) with `tally`, and `transport`, which has the threads and what is beside pods.
"""

from nri.agent.transports.standalone.transport import Standalone

__all__ = ["Standalone"]
