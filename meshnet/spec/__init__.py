"""Text to Spec: strict, with all problems at once and the place of each."""
