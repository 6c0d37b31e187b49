"""The common part of `topology-aware` and `balloons`: the plugin around a policy of `nri.policies.placement`.

Read `plugin_base` (events to decisions, decisions to answers), `answers` (pins as messages), `checkpoint` (what is kept
over a restart).
"""
