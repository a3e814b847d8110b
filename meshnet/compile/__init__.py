"""Spec to Program: pure, backend-neutral, one pass for one feature that a user can name."""
