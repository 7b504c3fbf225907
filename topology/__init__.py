"""The declared world: clusters as leaves of a tree, one YAML file, one plan of links.

Layout, from the bottom: `model` holds the values, `copyflags` the arithmetic, `formats` and `names`
what things are called; `tree` and `plan` derive from them, `spread` runs the algorithm, `prove`
looks for counter-examples; `loading`, `decode`, `rules` and `naming` read a file; `render` and
`picture` draw, `output` shows rows; `starter` writes a first file; `testing` makes trees; `cli` is
the command.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
