"""The CRI's calls, without gRPC: one file for a call or a pair, from its request to its last undo.

A method has the call's name in small letters (``CreateContainer`` is ``create_container``), takes the request and the
`call.Call`, and raises the engine's errors: the server has their table. A call without a method is Unimplemented.
"""
