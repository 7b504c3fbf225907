"""What Confluent's schema registry answers, request by request.

Facts from its resources, error codes and tests (release 7, and 8 where 7 leaves something open);
the schemas and sequences are ours. A sequence begins with an empty registry.
"""

from tests.support.confluent_cases import (
    comparing,
    deleting,
    importing,
    protobuf,
    reading,
    refusing,
    registering,
    settings,
)

SEQUENCES = {
    **registering.SEQUENCES,
    **reading.SEQUENCES,
    **deleting.SEQUENCES,
    **settings.SEQUENCES,
    **comparing.SEQUENCES,
    **importing.SEQUENCES,
    **refusing.SEQUENCES,
    **protobuf.SEQUENCES,
}
