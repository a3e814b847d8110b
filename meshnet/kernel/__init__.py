"""The host: namespaces, processes, rules, routes, links. Text and numbers in, text and numbers out."""
