"""How plugins join (connection, registration, configuration, synchronization), and the updates that they request.

Reading order: `listener`, `registry`, `handshake`, `admission` with its `sync_gate`, `chain`; then `update_queue`,
`plugin_updates` and `deferred_updates` (requests of plugins), and `housekeeping`.
"""
