"""The plugin that shows what plugins between its connections change. Next: `plugin`; `compare` finds differences."""
