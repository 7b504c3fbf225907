"""The web page of a running topology: what it looks like now, in one page without a build step.

`watcher` looks at the clusters and processes, `counters` turns totals into rates, `pages` is the
web application, `server` runs it. The page itself is in `static`: it shows names as text only,
whatever is in them.
"""
