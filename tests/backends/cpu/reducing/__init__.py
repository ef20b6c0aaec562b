"""Tests of backends/cpu/reducing."""
