"""Tests of fuser/calls."""
