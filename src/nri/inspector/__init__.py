"""A web page that shows what plugins do: now, from a runtime's admin socket, or then, from a recording.

Reading order: `sources` (what can be asked, of a runtime or of a recording, in one form), `page` (the page, its policy,
and a snapshot as one file), `web` (both over HTTP, for browsers that have the token). `page.html` draws, and works
nothing out.
"""
