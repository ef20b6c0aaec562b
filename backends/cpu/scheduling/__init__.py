"""Which schedules a loop nest has on the CPU, which one is chosen, and how its work is cut."""
