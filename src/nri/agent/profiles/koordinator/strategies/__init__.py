"""Koordinator's strategies: their samples, and what becomes of their decisions on this machine.

Their decisions are in `nri.policies.koordinator.loops`, pure. Reading order: `rules` (what NodeSLO asks for), then one
module for each strategy. A new one is a module here and a row in `nri.agent.profiles.koordinator.profile`.
"""
