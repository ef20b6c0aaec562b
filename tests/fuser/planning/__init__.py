"""Tests of fuser/planning."""
