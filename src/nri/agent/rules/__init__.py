"""Rules of the node: where they come from, and the book that keeps the last good one of each kind.

Next: `book`, which every source writes into and everything else reads; `parsed`, what a document means; then the
sources, `files` and `apiserver`.
"""
