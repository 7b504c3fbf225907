"""How a job's processes prove who they are: key files on every machine that runs a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.transport.keys import load_credentials
from dafka.transport.security import keyring

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of a job, by file; the files stay where they are, only their names travel.

    Attributes:
        access: The cluster's access file; None in a cluster without keys.
        key: The job's secret key file.
        insecure: Anybody may reach the job's nodes, also at hosts that are not this machine's own.
    """

    access: str | None = None
    key: str | None = None
    insecure: bool = False

    def introduce(self, *endpoints: Iterable[str]) -> None:
        """Let this process use the keys at these endpoints, and no others it was told of before.

        Spark's workers outlive jobs.

        Raises:
            MisuseError: A file cannot be used.
        """
        every = [endpoint for some in endpoints for endpoint in some]
        if self.access is not None and self.key is not None:
            keyring.add(every, load_credentials(Path(self.access), Path(self.key)))
            return
        keyring.forget(every)
        if self.insecure:
            keyring.allow(every)
