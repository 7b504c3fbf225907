"""Every bound on what a peer, a file or a caller may make a process hold. One place, on purpose.

Sizes are bytes, times milliseconds. Each says where its number comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

TOPIC_BYTES_MAX = 249
"""Kafka's bound on topic names; below the 255 a string of the wire format can carry."""

ADDRESS_BYTES_MAX = 255
"""What a string of the wire format can carry."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A ZeroMQ frame; larger ones end the peer's connection (ZMQ_MAXMSGSIZE)."""

HEADER_BYTES_MAX = 4 * 1024 * 1024
"""A header frame; only a CONSUMER-HELLO with very many topics comes near."""

HELLO_TOPICS_MAX = 10_000
"""Topics in one CONSUMER-HELLO."""

LISTENED_BYTES_MAX = 64 * 1024
"""Names of topics that a consumer without a key subscribes to; one of more listens to all topics.
Publishers keep thirty to fifty times as much of each consumer's (docs/adr/0029)."""

LISTENED_NAME_BYTES = 4
"""What each of them counts beside its letters: two octets of the frame, one that says that it is a
subscription, one of the kind of message."""

BATCH_BYTES_MAX = 8 * 1024 * 1024
"""A record batch with its envelope: half a frame, so that one batch always fits."""

EXPANDED_BYTES_MAX = 4 * BATCH_BYTES_MAX
"""What the records of one compressed batch may stand for; a reader takes one apart at a time."""

COMPARED_BYTES_MAX = 1024 * 1024
"""What compressed records may stand for to be compared: a millisecond of a store's time, for which
whoever wants to keep it busy has to send no more than a kilobyte."""

BATCH_RECORDS_MAX = 100_000
"""Records in one batch; also the most that one FETCH may ask for, as the C implementation asks."""

RECORD_BYTES_MAX = BATCH_BYTES_MAX - 64 * 1024
"""Key, value and headers of one record; the rest is room for the batch around it."""

JSON_LINE_BYTES_MAX = 6 * RECORD_BYTES_MAX
"""Such a record as a line of JSON, which writes a byte as six characters at most."""

FETCH_ANSWER_BYTES_MAX = 1024 * 1024
"""What one FETCH brings at most (at least one batch): the receiver's flow-control window."""

FETCHED_BYTES_MAX = 8 * FETCH_ANSWER_BYTES_MAX
"""What a receiver has asked for and not received, as far as it can tell."""

FETCHES_IN_FLIGHT_MAX = 64
"""FETCHes a receiver has unanswered at once: of thousands of partitions each may lack a little."""

REORDER_BYTES_MAX = 16 * 1024 * 1024
"""Batches a receiver holds that arrived ahead of a gap; more is dropped and fetched later."""

REORDER_BATCHES_MAX = 10_000
"""How many those may be: small ones cost more than their bytes, and they are searched."""

BUNDLE_MAX = 250
"""Messages of a few names and numbers that travel in one: 20 kB as a rule, 200 kB at most."""

KEY_BYTES_MAX = ADDRESS_BYTES_MAX + 1 + TOPIC_BYTES_MAX
"""What a message is listened for by: at most a store and a topic."""

PEERS_MAX = 1_000
"""Nodes one node connects to."""

STORE_PEERS_MAX = 20_000
"""The same of a store, where it may have three times as many open files."""

SENDERS_MAX = 256
"""Keys of producers that one node hears at a time; each takes a socket or two."""

NAMES_MAX = 100_000
"""Names of topics and nodes that are kept to be shared, and as they are written: 120 MB at most."""

STORES_MAX = 100
"""Stores of a cluster that are waited for and whose ACKs are counted; a few are usual."""

REQUESTERS_MAX = 10_000
"""Requesters of which it is known what they listen for; for the others batches are sent."""

REMINDED_TOPICS_MAX = 100_000
"""Topics that all consumers of another make together have asked for; the oldest are forgotten."""

SINGLE_ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""What a FETCH brings to a peer without batches: the C implementation asks once a second."""

PARTITIONS_MAX = 200_000
"""Partitions one node tracks; beyond it new ones are dropped and counted."""

IDLE_MAX = 5 * PARTITIONS_MAX
"""Partitions that stand still of which a consumer remembers where they go on, some 240 bytes each:
several times what stores list."""

SPARK_FORGOTTEN_MAX = 10_000
"""Partitions that no store lists any more of which a stream of Spark remembers where they go on,
some 30 bytes each, in every one of the hundred offsets that Spark keeps."""

IDLE_AT_ONCE_MAX = 1_000
"""Partitions that a consumer finds idle in one turn: some milliseconds."""

FORGOTTEN_MAX = 5_000_000
"""Partitions of which a store's disk remembers where they ended, some 170 bytes each; the longest
forgotten go first."""

FORGOTTEN_AT_ONCE_MAX = 1_000
"""Partitions that a store forgets in one transaction: some milliseconds."""

HEARSAY_MAX = 10_000
"""Partitions of one key of which nothing is known but that it says they are there."""

HEARSAY_ALL_MAX = PARTITIONS_MAX // 8
"""The same of all keys, some 25 MB: the rest is for partitions that have records. Who is refused is
heard when it says so again, and where its records come from the first on, at once."""

POSITIONS_MAX = 500_000
"""Positions of groups that one link follows: groups times partitions, some 500 bytes each."""

QUERY_BYTES_MAX = 16 * 1024 * 1024
"""One request or answer of the query port."""

READ_BYTES_MAX = 2 * 1024 * 1024
"""Batches in one answer to `read`, at least one of them: a store holds it until it is read."""

UNREAD_PEER_BYTES_MAX = 16 * 1024 * 1024
"""Answers that one peer has not read, with all others of its key."""

UNREAD_BYTES_MAX = 32 * 1024 * 1024
"""Answers that all peers of a node, or of a query port, have not read."""

PENDING_READS_PEER_MAX = 16 * FETCHES_IN_FLIGHT_MAX
"""FETCHes of one key, or node where there are no keys, that a store has not answered yet: one key
may be that of several nodes."""

PENDING_READS_MAX = 10_000
"""The same of all: some megabytes."""

HEADS_AT_ONCE_MAX = 500
"""Partitions that a store looks at in one turn to answer GET-HEADS: two or three milliseconds."""

HEAD_QUESTIONS_PEER_MAX = HELLO_TOPICS_MAX
"""GET-HEADS of one key, or node where there are no keys, that a store has not answered yet: whoever
reads many topics asks of each."""

HEAD_QUESTIONS_MAX = 2 * HEAD_QUESTIONS_PEER_MAX
"""The same of all: some megabytes."""

CONTROL_MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""A message between a controller and a replica: how far 200,000 partitions are with addresses of
ours has half of that."""

CONTROL_SESSIONS_MAX = 16
"""Controllers that one replica hears at a time, most of them for as long as it takes to say who
they are; more are refused."""

DIGEST_BYTES_MAX = 2 * 1024 * 1024
"""Batches that one request may have digested: a few milliseconds during which nothing is stored."""

DIGESTS_MAX = 1_000
"""Ranges in one request for digests."""

READ_SPANS_MAX = 1_000
"""Partitions in one request for records."""

DIGEST_RECORDS_MAX = 10_000
"""Records that one request may have digested one by one: some tens of milliseconds."""

CHANGES_MAX = 20_000
"""Partitions that may have changed before all are listed instead: every page looks at them."""

NAMED_MAX = 2_000
"""Partitions that one question may name: as many of the longest names are as large as a question
may be, and some milliseconds to look up."""

OPENING_CHARACTERS_MAX = 64
"""The name of one opening of a log, see `dafka.storage.log`."""

TABLE_BYTES_MAX = 32
"""The name of a table in a store's log."""

TABLE_KEY_BYTES_MAX = 470
"""A key of such a table: LMDB takes 511 bytes, with the table's name and a separator."""

DELETED_BATCHES_MAX = 10_000
"""Batches that one request may delete: some tens of milliseconds during which nothing is stored."""

RETAINED_BATCHES_MAX = 1_000
"""Batches that retention drops in one transaction, for the same reason."""

SCHEMA_BYTES_MAX = 1024 * 1024
"""The text of a schema; Confluent's registry keeps one in a Kafka record, 1 MB by default."""

SCHEMA_REFERENCES_MAX = 100
"""Other schemas that one uses, those they use included."""

SUBJECT_BYTES_MAX = 255
"""A subject: a topic's name and `-value`."""

GROUP_BYTES_MAX = 249
"""The name of a group of consumers: as long as a topic's, as in Kafka."""

COMMIT_METADATA_BYTES_MAX = 4_096
"""What an application may say with a commit; Kafka's `offset.metadata.max.bytes`."""

COMMIT_BYTES_MAX = 32 * 1024
"""Key or value of a commit: the metadata, of which JSON makes at most six bytes each."""

GROUP_MEMBERS_MAX = 200
"""Members of one group; each hears of all the others once a second, which of a thousand would be
more than a store can say."""

GROUP_TOPICS_MAX = 100
"""Topics of one member of a group."""

GROUP_MOVED_MAX = 1_024
"""Partitions of a group that are another member's than hashing says; each beat is answered with
their marks, 20 bytes each."""

GROUPS_MAX = 10_000
"""Groups whose members a store listens for; members of more are not heard."""

HOLD_NEED_BYTES_MAX = 64
"""A digest of which clusters must have what."""

LINKS_MAX = 100
"""Links of which a store knows that they bring positions of groups."""

WRITERS_MAX = 20_000
"""Writers of flows that a store has heard of; those that it hears no more make room."""

WRITERS_OF_FLOW_MAX = 100
"""The same of the shares of one flow: each of them is compared with all others."""

GROUP_NUMBER_MAX = 2**62
"""A generation of a group, or the epoch of a commit; the next one is larger than both."""

GROUP_NUMBERS_AHEAD_MAX = 2**32
"""How far a ballot may be ahead of the last that a store has promised, and the epoch of a commit of
the highest that it knows. Members count up by one: whoever may jump to the end leaves none."""

LEDGER_EPOCHS_AHEAD_MAX = 2**16
"""How far the epoch of a ledger may be above that of whoever takes it over, which lets the gateways
have a generation above it: more than generations that were lost, few of the 2^31 that there are."""

MEMBERSHIP_BYTES_MAX = 1024 * 1024
"""The members of a group with their topics, as a store keeps them."""

QUESTION_BYTES_MAX = MEMBERSHIP_BYTES_MAX + 4_096
"""The largest question to a store: to take this membership. Most are two names and a few numbers;
whoever sends more than this is disconnected."""


REQUEST_BYTES_MAX = 2 * BATCH_BYTES_MAX
"""A request of a Kafka client: a batch, or small ones of many partitions. Kafka's own bound,
`socket.request.max.bytes`, is 100 MB."""

CLIENT_BATCH_BYTES_MAX = BATCH_BYTES_MAX - 64
"""A batch of a Kafka client, which gets an envelope of 20 bytes; more is Kafka's
`MESSAGE_TOO_LARGE`."""

CLIENT_FETCH_BYTES_MAX = BATCH_BYTES_MAX
"""What a Kafka client gets at once, and one batch more: 50 MB is what most would take."""

CLIENT_WAIT_MS_MAX = 10 * 60_000
"""How long a Kafka client may let a request wait."""

PRODUCERS_MAX = 2_000
"""Idempotent producers that a Kafka partition knows, a kilobyte each."""

MEMBER_BYTES_MAX = 256 * 1024
"""What a Kafka client may tell the other members of its group: topics, and partitions that it has.
Kafka keeps all of a group in one record, of 1 MB by default."""

COORDINATED_BYTES_MAX = 256 * 1024 * 1024
"""Members of Kafka groups, their assignments and commits, as one gateway holds them."""

REQUEST_ITEMS_MAX = 20_000
"""Elements of all arrays in such a request, topics, partitions, names: tens of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBounds:
    """How much of what peers name a machine keeps; what each bound means stands at its default."""

    partitions: int = PARTITIONS_MAX
    hearsay_all: int = HEARSAY_ALL_MAX
    reorder_batches: int = REORDER_BATCHES_MAX
    stores: int = STORES_MAX
    requesters: int = REQUESTERS_MAX
    reminded_topics: int = REMINDED_TOPICS_MAX


PEER_BOUNDS = PeerBounds()

HOLES_PASSED_MAX = 5_000
"""Partitions of which links of a cluster pass over what their sources keep no more, as operators
want it: controllers keep all of it in one record."""

OPERATOR_CALLS_MAX = 64
"""Questions and commands of operators that a controller has open at a time; more are refused."""

OPERATOR_MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""What a controller answers at most: a row for each of its flows and topics."""
