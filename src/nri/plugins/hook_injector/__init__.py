"""OCI hooks for containers, as files in hooks.d directories say.

Reading order: `plugin`, `directories`, `hook_file`, `when`, `pattern`.
"""
