"""Telling a running distributor what to do: questions and answers on a port of its own."""
