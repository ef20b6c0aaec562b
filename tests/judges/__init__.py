"""Two judges that know only public names: random programs (`programs`), faults (`faults`)."""
