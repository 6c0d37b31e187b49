"""Captured bytes of NRI or ttRPC, understood without the program that sent them.

`catalog` knows which messages go with which method, `dissect` takes a capture apart frame by frame.
"""
