"""Rules of the node: a store with the last good document of each kind, and the sources of documents."""
