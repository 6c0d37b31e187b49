"""`topology-aware`: place each container in the part of the machine that fits it best."""
