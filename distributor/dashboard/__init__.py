"""The web pages of a running topology: what it looks like now, without a build step.

`watcher` looks at the clusters and processes, `counters` turns totals into rates, `catalogue` tells
what topics and groups there are, `documents` puts what a page shows into the frame of all, `pages`
is the web application, `server` runs it. What runs in the browser is in `static`: it shows names as
text only, whatever is in them.
"""
