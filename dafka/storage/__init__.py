"""Durable logs behind one port. Files, no sockets."""
