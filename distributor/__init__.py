"""Between clusters: one link per (cluster, level), and what runs and checks a whole topology.

Layout, from the bottom: `link` is the machine, `link_node` runs it on sockets; `survey`, `status`
and `verify` ask the clusters; `processes` and `supervisor` run all of a topology on one machine;
`demo` is the main job; `testing` runs topologies in the simulator; `cli` is the command.
"""

from distributor.errors import DistributorError as DistributorError
from distributor.link.node import LinkNode as LinkNode
from distributor.operations.status import Status as Status
from distributor.operations.status import status_of as status_of
from distributor.verify.compare import verify as verify
from distributor.verify.verdict import Verdict as Verdict
