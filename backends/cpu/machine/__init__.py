"""What machine code needs around it: loading, memory, threads, the processor, the disk cache."""
