"""Tests of fuser/traffic."""
