"""OCI hooks for containers, as files in hooks.d directories say. Next: `plugin`, `directories`, `hook_file`, `when`."""
