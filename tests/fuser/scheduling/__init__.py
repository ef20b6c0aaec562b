"""Tests of fuser/scheduling."""
