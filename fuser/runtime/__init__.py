"""A plan meets one call: layouts, symbolic binding of lengths, argument blocks, launches."""
