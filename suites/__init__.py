"""What is measured and how: workloads, runners, the measuring engine and the pytest door to it."""
