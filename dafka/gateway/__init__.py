"""Kafka clients on a cluster: so far the ledger of their offsets (ADR 28), and nothing listens."""
