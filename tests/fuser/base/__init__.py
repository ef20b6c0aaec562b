"""Tests of fuser/base."""
