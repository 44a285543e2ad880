"""Models whose features are of pairs of nodes: IGN, PPGN and Ring-GNN."""
