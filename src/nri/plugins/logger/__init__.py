"""The plugin that logs each request with all that is in it. Next: `plugin`."""
