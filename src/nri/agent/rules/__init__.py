"""Rules of the node: a store with the last good document of each kind, and its sources (files, an apiserver)."""
