"""The graph: symbolic lengths, the operator table, shape and dtype rules, views, canonical text."""
