"""The CRI's calls, without gRPC: one module for a call or a pair of calls.

A method has the call's name in snake case (``CreateContainer`` is ``create_container``), takes the request and the
`call.Call`, and raises the engine's errors, which the server maps to statuses. A call without a method is
Unimplemented.
"""
