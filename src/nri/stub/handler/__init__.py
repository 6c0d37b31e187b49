"""One call of one handler.

`call` goes from the request's bytes to the plugin's method, `answers` from what it returns to the bytes of the reply;
`coroutines` runs `async def`.
"""
