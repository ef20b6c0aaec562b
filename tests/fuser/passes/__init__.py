"""Tests of fuser/passes."""
