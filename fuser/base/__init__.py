"""What every room needs: errors and reasons, switches, counters, the clock, host expressions."""
