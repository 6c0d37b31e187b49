"""A project for a new plugin: `scaffold` writes it from `templates`, `wheel` packs this nri for it."""
