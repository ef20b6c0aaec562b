"""Tests of fuser/programs."""
