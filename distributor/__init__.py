"""Between clusters: one link per (cluster, level), and what runs and checks a whole topology.

Layout, from the bottom: `link` is the machine, `link_node` runs it on sockets; `survey`, `status`
and `verify` ask the clusters; `processes` and `supervisor` run all of a topology on one machine;
`demo` is the main job; `testing` runs topologies in the simulator; `cli` is the command.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
