"""Services over connections: clients and servers for unix sockets, methods, and streams of messages.

`client` and `aio` call, `server` answers, `service` and `descriptors` define methods, `streams` are calls with many
messages. Import public names from `nri.ttrpc`.
"""
