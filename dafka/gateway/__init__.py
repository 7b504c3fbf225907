"""Kafka clients on a cluster: so far the ledger of their offsets (ADR 33), and nothing listens."""
