"""The node agent: one policy over three transports, NRI, a CRI proxy and a reconciler of its own.

Hooks decide in `nri.policies.koordinator`, pure; here they are asked, and what they say is carried out. Rules come
from files or an apiserver (`rules`), pods as API objects from one of several sources (`pods`). Reading order:
`settings`, `shapes`, `worker` and `visitors` (threads, connections), `sources`, `observe`, `capabilities` and
`machine` (what is here), `explain`, `executor` with `writing`, `decisions`, `parts`, then `transports` and `loops`,
and last `agent`, which wires, with `serve` (its page) and `koordlet` (that no other agent runs).
"""
