"""What a content frame holds: an envelope and one Kafka record batch.

`aiokafka.record` and `google_crc32c` are imported here and nowhere else.
"""
