"""A plugin's way in: accepted, named, configured, synchronized, put in its place; and what it asks for by itself.

Reading order: `listener`, `registry`, `handshake`, `admission` with its `sync_gate`, `chain`; then
`update_queue`, `plugin_updates` and `kept_updates` (what plugins ask for by themselves), and `housekeeping`.
"""
