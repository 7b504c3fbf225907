"""The web pages of a running topology: what it looks like now, without a build step.

`watcher` looks at the clusters and processes, `counters` turns totals into rates, `catalogue` tells
what topics and groups there are, `pages` is the web application, `server` runs it. The pages are in
`static`: they show names as text only, whatever is in them.
"""
