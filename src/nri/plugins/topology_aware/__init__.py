"""`topology-aware`: containers in the part of the machine that fits them best."""
