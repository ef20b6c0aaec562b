"""The fused function: its trace cache, and the fast paths of known calls."""
