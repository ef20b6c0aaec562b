"""Whether a result is right, where it lies, and whether a timed call did its work."""
