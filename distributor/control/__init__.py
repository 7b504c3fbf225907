"""Telling a running distributor what to do: questions and answers on a port of its own.

And, not spoken by anybody yet, how controllers drive replicas: docs/control-protocol.md.
"""
