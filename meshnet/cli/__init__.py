"""The commands. ``output`` is the only place that prints."""
