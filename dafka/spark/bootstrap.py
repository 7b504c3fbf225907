"""`kafka.bootstrap.servers`: a gateway says where the stores and towers of its cluster are.

Jobs go to stores, past gateways, so these are asked for one thing only, each time a query is
planned: the configs that all brokers have in common, which of one of our clusters say it.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

from dafka.errors import MisuseError, RequestError
from dafka.model import Endpoint
from dafka.spark.given import Given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.gateway.broker import Entrance

BOOTSTRAP = "kafka.bootstrap.servers"

TIMEOUT_S = 5.0
"""How long a gateway may take to let somebody in, and again to answer."""

_ANSWER_BYTES_MAX = 1 << 20
_SIZE = struct.Struct(">i")
_NAME = "dafka-spark"
_VERSION = 1
"""Of DescribeConfigs: the first that Kafka 4 has, too."""

_INSTEAD = (
    "say 'topology' (its file) and 'cluster' instead, or 'servers' (query ports of the cluster's "
    "stores, with commas) and, for a sink, 'towers'"
)


def with_entrance(options: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Return options with `kafka.bootstrap.servers` replaced by what it stands for.

    Args:
        options: By name, in whatever case.
        timeout_s: How long a gateway may take.

    Raises:
        MisuseError: The cluster is named twice; or no gateway answers, or the one that does is none
            of ours; or its cluster has keys, and the options none.
    """
    plain = {name.lower(): value for name, value in options.items()}
    places = plain.pop(BOOTSTRAP, None)
    if places is None:
        return plain
    Given(plain).check_strangers()
    for name in ("servers", "towers"):
        if name in plain:
            raise MisuseError(
                f"option {BOOTSTRAP!r} cannot be used here: the cluster is named already; leave "
                "one of the two out"
            )
    place, entrance = _asked(places, timeout_s)
    if entrance.keys and "key" not in plain:
        raise MisuseError(
            f"option {BOOTSTRAP!r}: the cluster of gateway {place} lets in only who has a key: say "
            "'access' and 'key' (files, on every machine)"
        )
    if entrance.insecure:
        plain.setdefault("insecure", "true")
    if entrance.wire:
        plain.setdefault("wire", entrance.wire)
    return {**plain, "servers": ",".join(entrance.stores), "towers": ",".join(entrance.towers)}


def _asked(places: str, timeout_s: float) -> tuple[str, Entrance]:
    """The first gateway that answers, and what it says."""
    failures = []
    for text in places.split(","):
        place = text.strip()
        try:
            host, port = Endpoint.parse(f"tcp://{place}")
        except MisuseError as error:
            raise MisuseError(
                f"option {BOOTSTRAP!r} is HOST:PORT, or several: {place!r}"
            ) from error
        try:
            found = _entrance(host.strip("[]"), port, timeout_s)
        except OSError as error:
            failures.append(f"{place} does not answer ({error})")
            continue
        if found is not None:
            return place, found
        failures.append(f"{place} is no gateway of this product, or lets in only who logs in")
    raise MisuseError(f"option {BOOTSTRAP!r}: {'; '.join(failures)}: {_INSTEAD}")


def _entrance(host: str, port: int, timeout_s: float) -> Entrance | None:
    """What a gateway says of its cluster; None if it says nothing of the kind.

    Raises:
        OSError: It does not answer.
    """
    # What speaks Kafka is loaded where it is asked for.
    from dafka.gateway.configs import entrance_of
    from dafka.gateway.topics import BROKER_RESOURCE
    from dafka.gateway.wire import SIZE_BYTES, Api, answered, request_to

    brokers = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": "",
        "configuration_keys": None,
    }
    question = request_to(Api.DESCRIBE_CONFIGS, _VERSION, _NAME, {"resources": [brokers]})
    deadline_s = time.monotonic() + 2 * timeout_s
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(question)
        head = _octets(connection, SIZE_BYTES, deadline_s)
        (size,) = _SIZE.unpack(head) if head else (0,)
        frame = _octets(connection, size, deadline_s) if 0 < size <= _ANSWER_BYTES_MAX else b""
    try:
        answer = answered(Api.DESCRIBE_CONFIGS, _VERSION, frame)
    except RequestError:
        return None
    rows = (row for result in answer.results for row in result.configs)
    return entrance_of({row.name: row.value for row in rows})


def _octets(connection: socket.socket, size: int, deadline_s: float) -> bytes:
    """The next so many bytes; none if the other end goes before, as where one has to log in."""
    octets = b""
    while len(octets) < size:
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        try:
            more = connection.recv(size - len(octets))
        except ConnectionResetError:
            more = b""
        if not more:
            return b""
        octets += more
    return octets
