"""Schemas on every cluster: from the primary's registry to all others, under their own names.

From the bottom: `translation` spells entries as another cluster does, `comparison` says what one
registry lacks of another, both without IO. `site` is one cluster's registry as seen from here;
`distributor` copies, `promotion` makes another cluster the primary, `difference` compares all;
`node` runs the distributor in a process.
"""
