"""Tests of fuser/ir."""
