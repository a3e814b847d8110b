"""The nouns: values that are frozen and check themselves. No I/O."""
