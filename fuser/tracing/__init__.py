"""Stand-ins for arrays, lengths and scalars, and the canonical graph that they leave."""
