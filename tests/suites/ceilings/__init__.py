"""Tests of the peers' runners."""
