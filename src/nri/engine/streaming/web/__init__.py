"""HTTP/1.1 up to the switch of protocols, and WebSockets behind it, without a socket.

Rules: h11 and wsproto do the grammar, both small and pure Python; what they leave open is decided here.
"""
