"""From graph to graph: rewrite rules, decompositions, concatenations, slice updates."""
