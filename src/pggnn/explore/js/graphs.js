// Panel 3: what a node of a small graph reads.
import { arrangements } from "./group.js";
import { byId, count, h } from "./dom.js";
import { Picture, scaled } from "./picture.js";
import { adjacency, findRings, ringsOf } from "./rings.js";
import { showVerdicts } from "./verdicts.js";

export const MOST_RING = 8;
const [MOST_NODES, MOST_SHOWN] = [40, 60];
const state = { key: "", node: 0, held: null, route: [], graphs: {}, pairs: {} };
let picture, other;

const graph = () => state.graphs[state.key];
const editing = () => byId("edit").checked;

// The edges that a text lists, such as "1-2, 2-3", counted from 1.
export function parseEdges(text) {
  const found = [...text.matchAll(/(\d+)\s*[-–—]\s*(\d+)/g)].map(([, u, v]) => [Number(u) - 1, Number(v) - 1]);
  const wrong = found.find(([u, v]) => u === v || Math.min(u, v) < 0 || Math.max(u, v) >= MOST_NODES);
  if (wrong) throw new Error(`An edge joins two different nodes from 1 to ${MOST_NODES}; got ${wrong[0] + 1}-${wrong[1] + 1}.`);
  const keys = new Set(found.map(([u, v]) => Math.min(u, v) * MOST_NODES + Math.max(u, v)));
  return [...keys].sort((a, b) => a - b).map((key) => [Math.floor(key / MOST_NODES), key % MOST_NODES]);
}

function setGraph(key) {
  Object.assign(state, { key, node: 0, held: null, route: [] });
  byId("graph").value = key;
  show();
}

function setOwn(n, edges, places) {
  state.graphs.own = { name: "Your own graph", n, edges, places, near: adjacency(n, edges) };
  const keep = Math.min(state.node, n - 1);
  setGraph("own");
  state.node = Math.max(0, keep);
  show();
}

function choose(node) {
  if (editing() && state.held !== null && state.held !== node) {
    const { n, edges, places } = graph();
    const [u, v] = [Math.min(state.held, node), Math.max(state.held, node)];
    const left = edges.filter(([a, b]) => a !== u || b !== v);
    state.held = null;
    state.node = node;
    setOwn(n, left.length < edges.length ? left : [...edges, [u, v]].sort(([a, b], [c, d]) => a - c || b - d), places);
    return;
  }
  state.held = editing() ? node : null;
  Object.assign(state, { node, route: [] });
  show();
}

function place(point) {
  if (!editing()) return;
  const { n, edges, places } = graph();
  if (n >= MOST_NODES) {
    byId("edit-said").textContent = `A graph here has at most ${MOST_NODES} nodes.`;
    return;
  }
  state.node = n;
  setOwn(n + 1, edges, [...places, point]);
}

// A line of what is read, as a button that shows it in the picture.
function reading(words, route) {
  const pressed = state.route.join() === route.join();
  return h("li", null, h("button", {
    type: "button", class: "reading", "aria-pressed": String(pressed),
    click: () => {
      state.route = pressed ? [] : route;
      show();
      byId("readings").querySelector('[aria-pressed="true"]')?.focus();
    },
  }, words));
}

function showReadings() {
  const { near } = graph();
  const { node } = state;
  const star = near[node] ?? [];
  const join = (route) => route.map((one) => one + 1).join(" ");
  const rows = arrangements(star.length).map((order) => [node, ...order.map((i) => star[i]), node]);
  const known = findRings(near, MOST_RING);
  const rings = known ? ringsOf(known, node) : [];
  byId("star").replaceChildren(...rows.slice(0, MOST_SHOWN).map((route) => reading(join(route), route)));
  byId("star-said").textContent = star.length
    ? `Node ${node + 1} has ${count(star.length, "neighbour")} and reads ${count(rows.length, "arrangement")}, itself first and last.`
    : `Node ${node + 1} has no neighbours: it reads itself alone.`;
  byId("rings").replaceChildren(...rings.slice(0, MOST_SHOWN).flatMap(({ there, back }) => [reading(join(there), there), reading(join(back), back)]));
  const more = rings.length > MOST_SHOWN ? ` The first ${MOST_SHOWN} are listed.` : "";
  const all = known && `${count(known.length, "ring")} of up to ${MOST_RING} nodes without a chord`;
  byId("rings-said").textContent = !known ? "The graph has too many rings to be searched here."
    : rings.length ? `The graph has ${all}. Node ${node + 1} lies on ${rings.length.toLocaleString("en")} and reads each in both directions.${more}`
      : `The graph has ${all}. Node ${node + 1} lies on none.`;
}

function show() {
  const { n, edges, near } = graph();
  const colours = Object.fromEntries((near[state.node] ?? []).map((node) => [node, "near"]));
  if (state.held !== null) colours[state.held] = "held";
  picture.show(graph(), { chosen: state.node, colours, route: state.route });
  byId("graph-said").textContent = `${graph().name}: ${count(n, "node")}, ${count(edges.length, "edge")}. Chosen: node ${state.node + 1}.`;
  if (document.activeElement !== byId("edges")) byId("edges").value = edges.map(([u, v]) => `${u + 1}-${v + 1}`).join(" ");
  byId("edit-said").textContent = editing()
    ? state.held === null ? "Press an empty place for a new node, or a node to begin an edge." : `Press another node: its edge to node ${state.held + 1} is added or removed.`
    : "";
  showReadings();
  compare();
}

function compare() {
  const key = byId("other").value;
  other.show(state.graphs[key], { chosen: -1 });
  showVerdicts(state.graphs, state.pairs, state.key, key);
}

// The graph that the most tests take for this one, to compare with.
function partner(key) {
  const alike = ({ parted }) => parted.filter((iteration) => iteration === null).length;
  const pairs = Object.entries(state.pairs.pairs).filter(([names]) => names.split(" ").includes(key));
  const [closest] = pairs.sort(([, one], [, other]) => alike(other) - alike(one));
  return closest?.[0].split(" ").find((name) => name !== key);
}

export function startGraphs(bundled) {
  state.pairs = bundled;
  for (const [key, one] of Object.entries(bundled.graphs))
    state.graphs[key] = { ...one, places: scaled(one.places), near: adjacency(one.n, one.edges) };
  const options = () => Object.entries(bundled.graphs).map(([key, one]) => h("option", { value: key }, one.name));
  byId("graph").append(...options(), h("option", { value: "own" }, "Your own graph"));
  byId("other").append(...options());
  picture = new Picture(byId("picture"), choose, place);
  other = new Picture(byId("other-picture"));
  byId("graph").addEventListener("change", () => {
    const key = byId("graph").value;
    state.graphs.own ??= { ...graph(), name: "Your own graph", labels: undefined };
    byId("edit").checked = key === "own";
    byId("other").value = partner(key) ?? byId("other").value;
    setGraph(key);
  });
  byId("other").addEventListener("change", compare);
  byId("edit").addEventListener("change", () => {
    state.held = null;
    show();
  });
  byId("empty").addEventListener("click", () => {
    byId("edit").checked = true;
    setOwn(1, [], [[0, 0]]);
  });
  byId("edges").addEventListener("change", () => {
    try {
      const edges = parseEdges(byId("edges").value);
      const n = Math.max(1, ...edges.map(([, v]) => v + 1));
      const places = graph().places.slice(0, n);
      for (let i = places.length; i < n; i += 1) places.push([150 * Math.sin(i * 2.4), -150 * Math.cos(i * 2.4)]);
      setOwn(n, edges, places);
    } catch (error) {
      byId("edit-said").textContent = error.message;
    }
  });
  byId("other").value = "shrikhande";
  setGraph("rook");
}
