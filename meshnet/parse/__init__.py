"""What the tools print, read back as values."""
