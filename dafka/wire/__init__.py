"""Bytes to messages and back. Pure: no sockets, no clock."""
