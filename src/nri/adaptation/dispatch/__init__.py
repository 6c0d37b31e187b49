"""One event on its way through all plugins: from the runtime's call to one merged, validated answer.

Reading order: `dispatcher` (the loop), `nri.adaptation.peers.turns` (how an event waits for its turn), `invoker` (one
plugin asked, and every failure), `event` (what is asked, how answers are merged) with `reply_limits`, `reply` (what the
runtime gets, commit and abort). A creation also passes `validation`; `observation` reports to observers and reporters.
All limits of waiting are in `nri.adaptation.time_budget`.
"""
