"""Loops in C: what this machine allows a formula, as gcc compiles it."""
