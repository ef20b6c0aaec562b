"""Tests of fuser/runtime."""
