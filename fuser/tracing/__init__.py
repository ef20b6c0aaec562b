"""A function becomes a graph: stand-ins for arrays, lengths and scalars, and NumPy functions."""
