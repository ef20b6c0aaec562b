"""Every figure: what it shows, and how all of them look."""
