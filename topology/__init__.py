"""The declared world: clusters as leaves of a tree, one YAML file, one plan of links.

Layout, from the bottom: `model` holds the values, `copyflags` the arithmetic, `formats` and `names`
what things are called; `tree` and `plan` derive from them, `spread` runs the algorithm, `prove`
looks for counter-examples; `loading`, `decode`, `rules` and `naming` read a file; `render` and
`picture` draw, `output` shows rows; `testing` makes trees; `cli` is the command.
"""

from topology.errors import InvalidError as InvalidError
from topology.errors import Problem as Problem
from topology.errors import TopologyError as TopologyError
from topology.errors import UnreadableError as UnreadableError
from topology.loading import load as load
from topology.model import Branch as Branch
from topology.model import ClusterName as ClusterName
from topology.model import ClusterSpec as ClusterSpec
from topology.model import Topology as Topology
from topology.names import Names as Names
from topology.plan import Distributor as Distributor
from topology.plan import Link as Link
from topology.plan import Plan as Plan
from topology.plan import plan as plan
from topology.prove import prove as prove
from topology.render import render_text as render_text
from topology.spread import Spread as Spread
from topology.spread import spread as spread
