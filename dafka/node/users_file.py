"""The users file of a running gateway: read again when it has changed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.gateway.users import load_users

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dafka.gateway.users import KafkaUsers

log = logging.getLogger(__name__)

LOOK_S = 2.0


class UsersFile:
    """Who may log in, as a file says it; where that cannot be used any more, as it last said it.

    Args:
        file: `kafka.toml`.
        look_s: How often it is looked whether it has changed.

    Raises:
        MisuseError: It cannot be used.
    """

    def __init__(self, file: Path, look_s: float = LOOK_S) -> None:
        self._file, self._look_s = file, look_s
        self._seen = self._state()
        self.users = load_users(file)
        self.problem = ""
        """Why what is in the file now is not in effect; empty if it is."""

    async def run(self, use: Callable[[KafkaUsers], None]) -> None:
        """Have each change of it used."""
        while True:
            await asyncio.sleep(self._look_s)
            state = self._state()  # before it is read: what is written meanwhile is seen next time
            if state == self._seen:
                continue
            self._seen = state
            try:
                self.users = await asyncio.to_thread(load_users, self._file)
            except MisuseError as error:
                self.problem = f"{error}; users are those of before"
                log.warning("users file is not taken up: %s", error)
                continue
            self.problem = ""
            use(self.users)
            log.info("users file is taken up", extra={"users": len(self.users.users)})

    def _state(self) -> tuple[int, ...]:
        """What is another where the file is; nothing while it is not there."""
        try:
            found = self._file.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
