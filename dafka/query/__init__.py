"""Questions to a store, outside the mesh: bounded reads, heads, health."""
