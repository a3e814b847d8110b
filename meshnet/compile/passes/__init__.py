"""The passes, in the order in which ``pipeline`` lists them. A pass knows no backend."""
