"""Kafka clients on a cluster: what speaks to them (ADR 31), and their offsets' ledger (ADR 28)."""
