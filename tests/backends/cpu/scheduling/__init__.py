"""Tests of backends/cpu/scheduling."""
