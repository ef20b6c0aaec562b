"""Tests of suites/commands."""
