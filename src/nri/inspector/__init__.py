"""A web page that shows what plugins do, from a runtime's admin socket or from a recording.

`sources` has the data, `filters` the choice of events, `page` the page and its snapshots, `web` the HTTP server.
`page.html`, `page.css` and `page.js` only display.
"""
