"""Which images may run on the node: rules by registry, name, digest, signature policy and namespace."""
