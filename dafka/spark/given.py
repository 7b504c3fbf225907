"""Options as a user gave them: text, by names in whatever case. What is unknown is refused.

What only Spark's Kafka source and sink know is let through, so that a job may keep it, but for what
keeps strangers out: whoever says that counts on it.
"""

from __future__ import annotations

import logging
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import Endpoint
from dafka.spark.bounds import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

KAFKAS_OWN = (
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("groupIdPrefix", "includeHeaders"),
)
"""Options of Spark's Kafka source and sink that mean nothing here, beside those that begin with
`kafka.`. They are let through."""

_TABLES = "provider"
"""What Spark's catalog adds to the options of a table that is created without columns, with Spark
4.3. A query is then told none at all but those that it has itself."""

_INSTEAD = (
    "a table of Spark's catalog does not pass its options on to queries: say CREATE TABLE name "
    "(columns) USING dafka, and the options in each query, FROM name WITH (…); or say CREATE "
    "TEMPORARY VIEW in place of CREATE TABLE"
)

_KAFKA = "kafka."
_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")

_UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Given:
    """Options, by their names in lower case.

    Args:
        options: As Spark shows them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def check_names(self, known: Iterable[str], *, told: bool) -> None:
        """Refuse what is unknown, or keeps strangers from Kafka's brokers.

        Args:
            known: Names of options.
            told: Whether to log which are passed over.
        """
        if not self._options:
            raise MisuseError(f"no option is given; {_INSTEAD}")
        self.check_strangers()
        names = {name.lower(): name for name in known}
        passed = {name.lower() for name in KAFKAS_OWN}
        for name in self._options:
            if name in names:
                continue
            if name == _TABLES:
                raise MisuseError(_INSTEAD)
            if not name.startswith(_KAFKA) and name not in passed:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean {names[near[0]]!r}?" if near else "there is none like it;"
                raise MisuseError(
                    f"unknown option {name!r}: {hint} known are {', '.join(names.values())}"
                )
            if told:
                log.warning("option of Spark's Kafka source means nothing here: %s", name)

    def check_strangers(self) -> None:
        """Refuse what keeps strangers from Kafka's brokers: whoever says it counts on it."""
        for name, value in self._options.items():
            if name.startswith(_SECURITY) and value.upper() != "PLAINTEXT":
                raise MisuseError(
                    f"option {name!r} is for Kafka's clients, and jobs go to stores: say where "
                    "these are by 'topology' and 'cluster', or by 'servers' and 'towers', and who "
                    "the job is by 'access' and 'key' (files)"
                )

    def text(self, name: str) -> str | None:
        """What an option says; None if it is not there, as below."""
        return self._options.get(name.lower())

    def refuse(self, name: str, reason: str) -> None:
        """Refuse an option if it is there."""
        if self.text(name) is not None:
            raise MisuseError(f"option {name!r} cannot be used here: {reason}")

    def endpoints(self, name: str) -> tuple[str, ...]:
        """Endpoints with commas, at least one."""
        text = self.text(name)
        if not text:
            raise MisuseError(f"option {name!r} is needed: tcp://HOST:PORT, or several with commas")
        try:
            return tuple(str(Endpoint.parse(part.strip())) for part in text.split(","))
        except MisuseError as error:
            raise MisuseError(f"option {name!r}: {error}") from error

    def number(self, name: str) -> int | None:
        """A whole number above 0."""
        text = self.text(name)
        if text is None:
            return None
        number = whole(text)
        if not number:
            raise MisuseError(f"option {name!r} must be a whole number above 0, got {text!r}")
        return number

    def duration_ms(self, name: str) -> int | None:
        """How long, in the units that Spark writes; milliseconds if there is none."""
        text = self.text(name)
        if text is None:
            return None
        found = re.fullmatch(r"([0-9]{1,15}) *([a-z]*)", text.strip().lower())
        unit = found and _UNITS_MS.get(found[2])
        if not found or unit is None:
            units = ", ".join(filter(None, _UNITS_MS))
            raise MisuseError(
                f"option {name!r} must be a number and one of {units}, as in 15m: {text!r}"
            )
        return int(found[1]) * unit

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise MisuseError(f"option {name!r} must be true or false, got {text!r}")
        return text.lower() == "true"
