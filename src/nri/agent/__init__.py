"""The node agent: one policy over three transports, NRI, a CRI proxy and a reconciler of its own.

Whose rules it enforces is one value, a `profile`; hooks and strategies decide in their profile, pure; here they are
asked, and what they say is carried out. Rules come from files or an apiserver (`rules`), pods as API objects from one
of several sources (`pods`). Reading order: `profile`, `settings`, `worker`, `observe`,
`capabilities`, `explain`, `executor` with `writing`, `decisions`, `parts`, then `transports` and `loops`, `profiles`,
and last `agent`, which wires, with `foreign` (that no other agent runs).
"""
