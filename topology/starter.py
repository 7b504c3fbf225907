"""A topology file to begin with: clusters on this machine, under a balanced binary tree."""

from __future__ import annotations

CLUSTERS_MAX = 32
"""For more this machine and a reader of the file are too small."""

_FIRST_PORT = 17_100
_PORTS_EACH = 10
_FIRST_METRICS_PORT = 17_900

_HEAD = """\
# {count} clusters on this machine under a binary tree. `topology check` says whether a change of it
# may be used; config/README.md of the repository lists all that may stand here.
version: 1
name: {count}-clusters
metrics: {{host: 127.0.0.1, first_port: {metrics}}}

clusters:
"""
_CLUSTER = """\
  - name: {name}
    id: {number}
    towers: [tcp://127.0.0.1:{port}]
    stores:
      - {{query: tcp://127.0.0.1:{query}, data: data/{name}}}
"""
_TAIL = """
topics:
  include: ["*"]
heartbeat_ms: 1000
control: {directory: control}
"""


def starter(count: int) -> str:
    """Return the text of a topology file.

    Args:
        count: How many clusters, 2 to 32; they are called cluster-1 and so on.
    """
    names = [f"cluster-{number}" for number in range(1, count + 1)]
    clusters = [
        _CLUSTER.format(
            name=cluster,
            number=place + 1,
            port=_FIRST_PORT + _PORTS_EACH * place,
            query=_FIRST_PORT + _PORTS_EACH * place + 2,
        )
        for place, cluster in enumerate(names)
    ]
    head = _HEAD.format(count=count, metrics=_FIRST_METRICS_PORT)
    return head + "".join(clusters) + "\ntree:\n" + "\n".join(_branch(names, "  ")) + "\n" + _TAIL


def _branch(names: list[str], indent: str) -> list[str]:
    """The lines of the tree over some clusters, two or more."""
    left, right = names[: (len(names) + 1) // 2], names[(len(names) + 1) // 2 :]
    level = (len(names) - 1).bit_length()
    if len(names) == 2:
        return [f"{indent}level: {level}", f"{indent}children: [{left[0]}, {right[0]}]"]
    lines = [f"{indent}level: {level}", f"{indent}children:"]
    for half in (left, right):
        if len(half) == 1:
            lines.append(f"{indent}  - {half[0]}")
            continue
        first, *rest = _branch(half, f"{indent}    ")
        lines += [f"{indent}  - {first.lstrip()}", *rest]
    return lines
