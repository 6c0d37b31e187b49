"""The plugin that shows what the plugins between its connections change."""
