"""What a plan moves between memory and the processor, counted from its graph and loop nests."""
