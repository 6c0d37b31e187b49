"""Services over connections: clients and servers for unix sockets, methods, and streams of messages.

Loaded when they are used; a plugin's start needs none of it. `client` and `aio` call, `server` answers, `service` and
`descriptors` say what, `streams` are calls with many messages. Public names are those of `nri.ttrpc`.
"""
