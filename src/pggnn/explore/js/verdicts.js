// What tests and rungs of the ladder tell of two graphs: computed ahead by pggnn.explore.bundled.
import { byId, h } from "./dom.js";

const SEEN = {
  "1-WL": "the colours of a node's neighbours, again and again: a GIN",
  "2-WL": "pairs of nodes; no more than 1-WL",
  "3-WL": "triples of nodes",
  "2-FWL": "pairs of nodes through every third; as much as 3-WL",
  "3-FWL": "triples of nodes through every fourth",
  neighbours: "a node's neighbours: a GIN, or PG-GNN with constant features",
  pairs: "pairs of neighbours, and whether they are joined",
  triples: "triples of neighbours, and which are joined",
  "ego net": "all neighbours, and all edges between them",
  rows: "neighbours with their whole adjacency rows",
};

function seen(test) {
  const [kind, , most] = test.split(" ");
  if (kind === "rings") return `neighbours, and rings of up to ${most} nodes without chords, read both ways`;
  if (kind === "cycles") return `neighbours, and all rings of up to ${most} nodes, and their chords`;
  return SEEN[test] ?? test;
}

function row(test, parted) {
  const apart = parted !== null;
  return h("tr", { class: apart ? "apart" : "alike" },
    h("th", { scope: "row" }, test, h("small", null, seen(test))),
    h("td", null, apart ? "yes" : "no"),
    h("td", { class: "n" }, apart ? parted : "–"));
}

export function showVerdicts(graphs, { tests, rungs, pairs }, one, other) {
  const [a, b] = [graphs[one], graphs[other]];
  const found = pairs[`${one} ${other}`] ?? pairs[`${other} ${one}`];
  const said = byId("verdict-said");
  byId("verdicts").hidden = !found;
  byId("other-said").textContent = `${b.name}: ${b.n} nodes, ${b.edges.length} edges.`;
  if (!found) {
    if (one === other) said.textContent = "This is the same graph twice: choose another one to compare with.";
    else if (a.n !== b.n) said.textContent = `The graphs have ${a.n} and ${b.n} nodes: every test tells them apart by that alone.`;
    else said.textContent = "Tests are computed ahead, for graphs that come with this page. For your own: pggnn lab ladder.";
    return;
  }
  const names = [...tests, ...rungs];
  const blind = names.filter((_, i) => found.parted[i] === null);
  said.textContent = found.isomorphic
    ? `${a.name} and ${b.name} are the same graph with other numbers: nothing tells them apart.`
    : `${a.name} and ${b.name} are different graphs. ${blind.length ? `These do not see it: ${blind.join(", ")}.` : "All tests see it."}`;
  const rows = (list, from) => list.map((test, i) => row(test, found.parted[from + i]));
  byId("test-rows").replaceChildren(...rows(tests, 0));
  byId("rung-rows").replaceChildren(...rows(rungs, tests.length));
}
