"""Tests of fuser/capture."""
