"""Log lines of the command-line programs: one line each, facts as key=value or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from datetime import UTC, datetime
from enum import Enum

from dafka.errors import ConnectionWarning, MisuseError

_LEVELS = ("debug", "info", "warning", "error")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class LineFormat(Enum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


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


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, facts, and a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record`."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        # A fact of a taken name would change what the line says.
        line |= {
            f"fact_{name}" if name in line else name: value
            for name, value in vars(record).items()
            if name not in _STANDARD
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


OURS = "dafka", "distributor", "topology"

_FORMATTERS = {LineFormat.TEXT: KeyValueFormatter, LineFormat.JSON: JsonFormatter}


def set_up_logs(level: str, form: LineFormat = LineFormat.TEXT) -> None:
    """Send log lines of `level` and above to standard error; of libraries warnings at least.

    What they say below that is for their authors, as the tracebacks of py4j's connections.

    Raises:
        MisuseError: There is no such level.
    """
    if level.lower() not in _LEVELS:
        raise MisuseError(f"log level {level!r} cannot be used: {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[form]())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # A node's own line says the same.
    warnings.simplefilter("ignore", ConnectionWarning)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
