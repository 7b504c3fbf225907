"""Log lines of the command-line programs: one line each, facts as key=value."""

from __future__ import annotations

import logging
import sys

from dafka.errors import MisuseError

_LEVELS = ("debug", "info", "warning", "error")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class KeyValueFormatter(logging.Formatter):
    """`time level logger: message key=value …`, control characters escaped.

    Topic names and peers' texts end up in logs; a line break in one must not start a new line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record`; a traceback follows on lines of its own."""
        facts = " ".join(
            f"{name}={_escaped(value)}"
            for name, value in vars(record).items()
            if name not in _STANDARD
        )
        message = _escaped(record.getMessage())
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message} {facts}"
        if record.exc_info:
            line = f"{line.rstrip()}\n{self.formatException(record.exc_info)}"
        return line.rstrip()


def _escaped(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def set_up_logs(level: str) -> None:
    """Send log lines of `level` and above to standard error.

    Raises:
        MisuseError: There is no such level.
    """
    if level.lower() not in _LEVELS:
        raise MisuseError(f"log level {level!r} cannot be used: {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
