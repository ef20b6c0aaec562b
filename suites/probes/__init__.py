"""What is measured beside the workloads: the machine, its ceilings, the parts of a call."""
