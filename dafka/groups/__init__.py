"""Named groups of consumers: what they have processed, and who of them takes which partition."""
