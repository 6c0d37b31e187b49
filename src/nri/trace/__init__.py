"""The record of a node's events, and captured bytes, understood without the programs that sent them.

`recorder` writes every step of every event into files, `blocks` knows their bytes, `redaction` replaces values in them,
`history` reads them again. `catalog` knows which messages go with which method, `dissect` takes captured bytes of NRI
or ttRPC apart frame by frame.
"""
