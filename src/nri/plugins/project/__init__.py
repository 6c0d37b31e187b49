"""Create a project for a new plugin: `scaffold` writes the files, `wheel` packs this nri for the project."""
