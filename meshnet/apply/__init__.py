"""Plan minus observed, done and undone: all or nothing."""
