// Graphs as lists of neighbours, and their rings, as pggnn/search.py finds them.

export function adjacency(n, edges) {
  const near = Array.from({ length: n }, () => new Set());
  for (const [u, v] of edges) {
    if (u !== v) {
      near[u].add(v);
      near[v].add(u);
    }
  }
  return near.map((nodes) => [...nodes].sort((u, v) => u - v));
}

export const MOST_STEPS = 3e6;

// Every chordless cycle of 3 to `most` nodes once: from its smallest node, towards the smaller of its two neighbours, in
// lexicographic order. Null where the search takes too long.
export function findRings(near, most) {
  const found = [];
  const beside = near.map((nodes) => new Set(nodes));
  let steps = 0;
  const extend = (path) => {
    const [root, second] = path;
    for (const node of near[path.at(-1)]) {
      steps += path.length;
      if (steps > MOST_STEPS) return;
      if (node <= root || path.includes(node) || path.slice(1, -1).some((other) => beside[node].has(other))) continue;
      if (path.length > 1 && beside[node].has(root)) {
        if (node > second) found.push([...path, node]);
      } else if (path.length < most - 1) extend([...path, node]);
    }
  };
  near.forEach((_, root) => extend([root]));
  if (steps > MOST_STEPS) return null;
  return found.sort((one, other) => {
    const at = one.findIndex((node, i) => node !== other[i]);
    return at < 0 ? one.length - other.length : one[at] - (other[at] ?? -1);
  });
}

// The rings through a node, read from it in both directions.
export function ringsOf(rings, node) {
  return rings
    .filter((ring) => ring.includes(node))
    .map((ring) => {
      const at = ring.indexOf(node);
      const there = [...ring.slice(at), ...ring.slice(0, at)];
      return { there: [...there, node], back: [node, ...there.slice(1).reverse(), node] };
    });
}

// Places for the nodes: a circle, then moved until lengths in the picture are near distances in the graph (stress).
export function layOut(n, near) {
  const turn = (i) => (2 * Math.PI * i) / n;
  const places = Array.from({ length: n }, (_, i) => [(Math.cos(turn(i)) * n) / 4, (Math.sin(turn(i)) * n) / 4]);
  const apart = near.map((_, from) => {
    const steps = new Array(n).fill(Infinity);
    steps[from] = 0;
    for (const queue = [from]; queue.length; ) {
      const node = queue.shift();
      for (const next of near[node].filter((one) => steps[one] === Infinity)) {
        steps[next] = steps[node] + 1;
        queue.push(next);
      }
    }
    return steps.map((one) => Math.min(one, Math.sqrt(n) + 1)); // also where no path leads
  });
  for (let round = 0; round < 150; round += 1) {
    for (let i = 0; i < n; i += 1) {
      let [x, y, weight] = [0, 0, 0];
      for (let j = 0; j < n; j += 1) {
        if (i === j) continue;
        const w = 1 / apart[i][j] ** 2;
        const [dx, dy] = [places[i][0] - places[j][0], places[i][1] - places[j][1]];
        const scale = apart[i][j] / Math.max(1e-6, Math.hypot(dx, dy));
        x += w * (places[j][0] + dx * scale);
        y += w * (places[j][1] + dy * scale);
        weight += w;
      }
      if (weight) places[i] = [x / weight, y / weight];
    }
  }
  return places;
}
