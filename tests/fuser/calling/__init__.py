"""Tests of fuser/calling."""
