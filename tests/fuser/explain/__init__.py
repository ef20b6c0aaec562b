"""Tests of fuser/explain."""
