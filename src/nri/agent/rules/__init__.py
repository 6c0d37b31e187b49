"""Rules of the node: where they come from, and the store that keeps the last good one of each kind.

Next: `store`, which every source writes into and everything else reads; then the sources, `files` and `apiserver`. A
profile says which kinds there are, and what a document of each means.
"""
