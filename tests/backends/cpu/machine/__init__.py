"""Tests of backends/cpu/machine."""
