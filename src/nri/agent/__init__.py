"""The node agent: one policy over three transports, NRI, a CRI proxy and a reconciler of its own.

Hooks decide in `nri.policies.koordinator`, pure; here they are asked, and what they say is carried out. Rules come from
files or an apiserver (`rules`), pods as API objects from one of several sources (`pods`). Reading order: `shapes`,
`observe`, `explain`, `executor`, `decisions`, `parts`, then `transports` and `loops`, and last `agent`, which wires.
"""
