"""Record a node's events, read recordings, and decode captured bytes.

`recorder` writes the steps of events, `blocks` has the file format, `redaction` replaces values, `history` reads
recordings. `catalog` has the messages of methods, `dissection` decodes captured bytes of NRI or ttRPC.
"""
