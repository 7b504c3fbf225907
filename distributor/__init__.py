"""Between clusters: one link per (cluster, level), and what runs and checks a whole topology.

Layout, from the bottom: `link` is the machine, `link_node` runs it on sockets; `survey`, `status`
and `verify` ask the clusters; `processes` and `supervisor` run all of a topology on one machine;
`demo` is the main job; `testing` runs topologies in the simulator; `cli` is the command.
"""

from distributor.comparing.verdict import Verdict as Verdict
from distributor.errors import DistributorError as DistributorError
from distributor.link_node import LinkNode as LinkNode
from distributor.status import Status as Status
from distributor.status import status_of as status_of
from distributor.verify import verify as verify
