"""Units for systemd: of each host of a topology, one for each process that runs on it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from topology.deployment import CONFIG, DeploymentError, placed_on_hosts
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from topology.deployment import PlacedProcess
    from topology.model import Topology

USER = "dafka"
"""Whose processes they are: keys are readable for it alone."""

_STATE = "/var/lib/"
_RUN = "/run/"

_UNIT = """\
[Unit]
Description=Dafka {name}
Documentation=https://rfc.zeromq.org/spec/46/
After=network-online.target
Wants=network-online.target
# Changes when what it reads of the topology does: start again whose unit has changed.
X-Config={digest}

[Service]
ExecStart=/usr/bin/env {command}
Environment=PATH=/opt/dafka/bin:/usr/bin:/bin
User={user}
Restart=always
RestartSec=1
TimeoutStopSec=15
MemoryMax={memory}
LimitNOFILE=65536
{directories}ReadOnlyPaths=-{config}
CapabilityBoundingSet=
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""


def units(topology: Topology) -> dict[str, dict[str, str]]:
    """Return the units of each host, by their names.

    Raises:
        DeploymentError: The topology cannot be run so.
    """
    return {
        host: {f"dafka-{one.name}.service": _unit(topology, one) for one in ours}
        for host, ours in placed_on_hosts(topology).items()
    }


def _unit(topology: Topology, one: PlacedProcess) -> str:
    directories = ""
    if one.data:
        state = posixpath.dirname(one.data)
        directories += _directory("State", _STATE, state, f"data {one.data!r} of {one.cluster}")
    if one.kind is ProcessKind.DISTRIBUTOR and topology.control is not None:
        control = topology.control.directory
        directories += _directory("Runtime", _RUN, control, f"control directory {control!r}")
        directories += "RuntimeDirectoryPreserve=yes\n"
    return _UNIT.format(
        name=one.name,
        digest=one.digest,
        command=" ".join(map(_quoted, one.command)),
        user=USER,
        memory=one.memory,
        directories=directories,
        config=CONFIG,
    )


def _directory(kind: str, root: str, path: str, what: str) -> str:
    """What has systemd make a directory for this user.

    Raises:
        DeploymentError: It would not be there.
    """
    if not path.startswith(root):
        raise DeploymentError(f"{what}: systemd makes directories below {root}: write one of these")
    return f"{kind}Directory={path.removeprefix(root)}\n{kind}DirectoryMode=0700\n"


def _quoted(word: str) -> str:
    """A word as systemd reads it."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = word and not any(char.isspace() or char in "\"';\\" for char in word)
    return word if plain else f'"{word}"'
