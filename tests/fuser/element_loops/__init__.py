"""Tests of fuser/element_loops."""
