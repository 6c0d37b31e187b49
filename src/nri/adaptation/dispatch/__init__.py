"""Process an event: from the runtime's call, through all plugins, to one merged and validated answer.

Reading order: `dispatcher` (the loop), `nri.adaptation.peers.turns` (how an event waits for its turn), `invoker` (ask
one plugin, handle its failures), `event` (requests, merged answers) with `reply_limits`, `reply` (the runtime's reply,
commit and abort). A creation also passes `validation`; `observation` reports to observers and reporters. All limits of
waiting are in `nri.adaptation.time_budget`.
"""
