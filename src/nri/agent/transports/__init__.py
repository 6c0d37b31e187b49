"""The ways by which pods and containers come to the policy and its decisions go back: NRI, CRI proxy, reconciler.

No transport knows another one: each hands contexts to `nri.agent.decisions` and takes changes away in its own words;
what it has no words for goes to `nri.agent.executor`. Next: `nri.agent.transports.nri`.
"""
