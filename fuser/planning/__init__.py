"""A graph becomes loop nests: what is stored, what shares a nest, and what that moves."""
