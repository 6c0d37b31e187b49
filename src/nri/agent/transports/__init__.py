"""Transports: how pods and containers come to the agent, and how what was decided reaches them.

Each module is one way, and none knows another: :mod:`nri.agent.transports.nri`, a plugin of the runtime;
:mod:`nri.agent.transports.proxy`, the same plugin behind a CRI proxy in this process; :mod:`nri.agent.transports.hooks`,
a hook server of Koordinator's own proxy; :mod:`nri.agent.transports.standalone`, which writes what it finds otherwise.
"""
