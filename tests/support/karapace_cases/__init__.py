"""What Karapace's schema registry answers, request by request.

Facts from its integration tests (release 5 and what came after); the schemas and sequences are
ours. Of what is wrong only the code is compared: it says it in other words. What Confluent's cases
have as well, word for word, is not repeated.
"""

from tests.support.karapace_cases import avro, http, json_schema, protobuf

SEQUENCES = {
    **avro.SEQUENCES,
    **http.SEQUENCES,
    **json_schema.SEQUENCES,
    **protobuf.SEQUENCES,
}
