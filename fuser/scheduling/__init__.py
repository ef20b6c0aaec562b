"""From graph to plan: what is stored, which loop nests share a kernel, and what that moves."""
