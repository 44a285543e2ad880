"""The paper's figures, drawn from the code, one file for each, and its tables: what was published, and how to make it."""

FIGURES = {
    "figure2": "pggnn.paper.figure2:draw",
    "figure5": "pggnn.paper.figure5:draw",
    "figure7": "pggnn.paper.figure7:draw",
    "figure8": "pggnn.paper.figure8:draw",
    "figure9": "pggnn.paper.figure9:draw",
}
SUMMARIES = {
    "figure2": "arrangements of 5 to 8 neighbours and their Hamiltonian cycles",
    "figure5": "Cayley diagrams of the groups for n = 7 and 8",
    "figure7": "the rook's graph with its 4-cliques, and the Shrikhande graph without",
    "figure8": "the aggregation step by step, for n = 5 and 6",
    "figure9": "random orders against the group: covering times up to n = 1,000 (about a minute)",
}
