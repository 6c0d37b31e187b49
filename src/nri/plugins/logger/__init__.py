"""The plugin that logs each request with all that is in it. Next: `plugin`; `config` has its keys and flags."""
