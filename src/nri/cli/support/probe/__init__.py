"""Find out by trying how a live runtime, or a plugin, behaves with NRI.

Reading order: `fields` (what a plugin may ask for, and where its effect is read), `runtime` (a runtime, asked by a
plugin of ours in pods of ours), `program` (a plugin, asked by our adaptation), `report` (the outcome as a table, JSON
or a page).
"""
