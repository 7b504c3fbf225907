"""One Dafka cluster: towers, stores, producers and consumers over ZeroMQ (RFC 46).

Layout, from the bottom: `wire` and `records` turn bytes into values; `protocol` holds the roles as
machines without IO; `storage` keeps logs; `groups` says how far consumers are; `query` asks stores;
`transport` is ZeroMQ; `node` runs machines on it; `testing` runs them in a simulator; `cli` is the
command.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
