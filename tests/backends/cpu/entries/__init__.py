"""Tests of backends/cpu/entries."""
