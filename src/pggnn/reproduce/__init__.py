"""The paper's tables and figures, made again: what ``pggnn reproduce`` runs."""

TRAINED = {
    "table2": ("pg-gnn", "single", "'ER triangles'"),
    "table3": ("pg-gnn", "single", "proteins"),
    "table4": ("pg-gnn", "single", "zinc"),
    "ablation": ("pg-gnn", "single", "'ER triangles'"),
    "gcn": ("gcn", "mean", "'ER triangles'"),
    "graphsage": ("graphsage", "replacement", "'ER triangles'"),
    "rp": ("rp", "rows", "'ER triangles'"),
    "rings": ("pg-gnn", "star", "zinc"),
    "groups": ("pg-gnn", "dihedral", "'ER triangles'"),
    "cycles": ("pg-gnn", "sum, rings", "'regular cycles5'"),
}
"""Tables of results, and of each a model, what one of its rows says of it, and a column."""

FIGURES = tuple(f"figure{number}" for number in range(1, 10))
"""Figures that can be drawn, each by ``draw`` of the module of that name in ``figures/``."""
SUMMARIES = {
    "search": "Options for the best configs: candidates ranked by validation",
    "table1": "What a layer costs in time and memory as degrees grow",
    "table2": "Counting triangles and 4-cliques in random graphs",
    "table3": "Classifying the graphs of TUDataset",
    "table4": "MNIST superpixels and ZINC",
    "ablation": "Counting with one thing changed at a time: orderings, cell, root, the paper's variants",
    "gcn": "Counting triangles with GCN, in the frame of Table 2 and in others",
    "graphsage": "Counting triangles with GraphSAGE, by how neighbours are drawn and what is scored",
    "rp": "Counting triangles with RP, with and without rows of the adjacency matrix",
    "rings": "ZINC by what a layer reads: neighbours, rings in both directions, controls",
    "groups": "Counting triangles by the group of orders: one, the paper's, dihedral, all",
    "cycles": "Counting cycles of 3 to 6 nodes in random graphs, with rings and with GIN",
    "table5": "RAM that training takes",
    "table6": "GPU memory that training takes",
    "table7": "What the data sets are like",
    "figure1": "Which pairs of seven neighbours four kinds of layers read one after the other",
    "figure3": "Two graphs that sums do not tell apart, and what a layer reads of them in an order",
    "figure4": "The arrangements that the proof of Theorem 1 begins with",
    "figure6": "The artificial node that the walk of Theorem 4 needs",
    "gallery": "All nine figures, as files and as a page",
    "figure2": "Arrangements of 5 to 8 neighbours and their Hamiltonian cycles",
    "figure5": "Cayley diagrams of the groups for n = 7 and 8",
    "figure7": "The rook's graph with its 4-cliques, and the Shrikhande graph without",
    "figure8": "The aggregation step by step, for n = 5 and 6",
    "figure9": "Random orders against the group: covering times up to n = 1,000 (about a minute)",
}
