"""A picture of an image, its superpixels and their graph."""

from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from pggnn.data.sets.superpixels import as_pixels, superpixel_graph, superpixels
from pggnn.report.figures import BLUE, FAINT, RED, drawing


def draw_superpixels(image: Any, path: str | Path, other: Data | None = None, **options: Any) -> Path:
    """Draws the image, its superpixels and their graph, and beside it the ``other`` graph of the image, if given.

    ``options`` are those of :func:`pggnn.data.sets.superpixels.superpixel_graph`.
    """
    from skimage.segmentation import find_boundaries

    pixels = as_pixels(image)
    graph = superpixel_graph(pixels, **options)
    labels = superpixels(pixels, **{key: options[key] for key in ("segments", "compactness") if key in options})
    fine = np.kron(labels + 1, np.ones((8, 8), int))
    outlined = np.repeat(np.repeat(pixels, 8, 0), 8, 1) * np.ones(3)
    outlined[find_boundaries(fine, mode="inner")] = (0.75, 0.22, 0.17)

    height, width = pixels.shape[:2]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    graphs = [("graph", graph)] + ([("published", other)] if other is not None else [])
    with drawing(path, (3.2 * (2 + len(graphs)), 3.5)) as figure:
        panels = figure.subplots(1, 2 + len(graphs))
        panels[0].imshow(pixels * np.ones(3), extent=extent)
        panels[0].set_title(f"image, {width} × {height} pixels")
        panels[1].imshow(outlined, extent=extent)
        panels[1].set_title(f"{labels.max() + 1} superpixels")
        for axes, (name, drawn) in zip(panels[2:], graphs, strict=True):
            _draw_graph(axes, drawn, max(height, width), pixels.shape[2])
            axes.set_title(f"{name}: {drawn.num_nodes} nodes, {drawn.num_edges} edges")
            axes.set(xlim=extent[:2], ylim=extent[2:], aspect="equal")
        for axes in panels:
            axes.set(xticks=[], yticks=[])
    return Path(path)


def _draw_graph(axes: Any, graph: Data, side: int, channels: int) -> None:
    from matplotlib.collections import LineCollection

    assert graph.x is not None and graph.edge_index is not None
    x = graph.x.double().numpy()
    place = x[:, [channels + 1, channels]] * side
    axes.set_facecolor(FAINT)
    axes.add_collection(LineCollection(place[graph.edge_index.t().numpy()], colors=BLUE, linewidths=0.5, alpha=0.6))
    colours = np.clip(x[:, :channels] * np.ones(3), 0, 1)
    axes.scatter(*place.T, c=colours, s=28, edgecolors=RED, linewidths=0.6, zorder=3)
