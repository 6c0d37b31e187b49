"""Call a handler: `call` decodes the request, `answers` encodes the reply, and `coroutines` runs `async def`."""
