"""Loops over single elements: from Python's syntax tree to typed, imperative code."""
