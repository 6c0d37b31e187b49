"""The node agent: one policy over three transports, NRI, a CRI proxy and a reconciler of its own.

Next: :mod:`nri.agent.settings`.
"""
