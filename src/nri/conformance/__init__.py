"""Try how a live runtime, or a plugin, behaves with NRI; replay recorded outcomes of the reference.

Reading order: `fields` (what a plugin may ask for, and where its effect is read), `runtime` (a runtime, asked by a
plugin of ours in pods of ours), `plugin` (a plugin, asked by our adaptation), `report` (the outcome as JSON or a page);
`cases` (recorded merges and specs) and `placement` (recorded placements).
"""
