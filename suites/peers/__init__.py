"""Runners of other fusers, each in a module of its own; what they need is imported when used."""
