"""What a live runtime does with NRI, and what a plugin does with it, found out by trying.

Reading order: `fields` (what a plugin may ask for, and where its effect is read), `runtime` (a runtime, asked by a
plugin of ours in pods of ours), `program` (a plugin, asked by our adaptation), `report` (the outcome as a table, JSON
or a page).
"""
