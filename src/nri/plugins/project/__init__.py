"""Create a project for a new plugin: `scaffold` writes its files, `wheel` packs this nri for it."""
