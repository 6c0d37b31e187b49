"""A web page that shows what plugins do, from a runtime's admin socket or from a recording.

`sources` has the data, `page` the page and its snapshots, `web` the HTTP server. `page.html` only displays.
"""
