"""Tests of fuser/tracing."""
