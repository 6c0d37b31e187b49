"""Try plugins on pods without a runtime, for `nri try`."""
