"""The calls of the CRI, without gRPC. Each module has one call, or calls that belong together.

The method for a call has the call's name in snake case: ``create_container`` answers ``CreateContainer``. Its arguments
are the request and a `call.Call`. It raises the engine's errors, and the server maps them to gRPC statuses. Clients
receive Unimplemented for a call without a method.
"""
