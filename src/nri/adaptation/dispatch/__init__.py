"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `nri.adaptation.peers.turns` (how an event waits for its turn), `invoker` (one
plugin asked, and every failure), `event` (its kinds, what becomes of answers, the reply). A creation also passes
`validation`. All limits of waiting are in `nri.adaptation.time_budget`.
"""
