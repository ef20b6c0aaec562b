"""The workloads, one module a family, each with a tuple WORKLOADS."""
