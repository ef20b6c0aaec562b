"""Tests of fuser/partitioning."""
