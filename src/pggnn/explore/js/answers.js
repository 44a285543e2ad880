// Panel 4: the answers of a run, and how much they move when neighbours are renumbered.
import { byId, count, digits, draw, h, path, s } from "./dom.js";
import { Picture, scaled } from "./picture.js";
import { adjacency, layOut } from "./rings.js";

const PAGE = 25;
const state = { run: null, column: "error", rising: false, chosen: 0, shown: PAGE, node: 0 };
let picture;

const COLUMNS = [
  { key: "graph", name: "graph" },
  { key: "training", name: "training" },
  { key: "truth", name: "truth" },
  { key: "answer", name: "answer" },
  { key: "error", name: "error", number: true },
  { key: "moved", name: "moves by", number: true },
];

function columns() {
  return COLUMNS.filter(({ key }) => state.run.rows.some((row) => row[key] !== null && row[key] !== undefined));
}

function compareRows(one, other) {
  const [a, b] = [one[state.column], other[state.column]];
  if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return state.rising ? order : -order;
}

function text(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? digits(value, 4) : String(value);
}

function showHead() {
  byId("answer-head").replaceChildren(...columns().map(({ key, name, number }) => {
    const sorted = key === state.column ? (state.rising ? "ascending" : "descending") : "none";
    const mark = { ascending: " ↑", descending: " ↓", none: "" }[sorted];
    return h("th", { class: number ? "n" : null, "aria-sort": sorted, scope: "col" }, h("button", {
      type: "button",
      click: () => {
        state.rising = key === state.column ? !state.rising : !number;
        state.column = key;
        showTable();
        byId("answer-head").querySelectorAll("button")[columns().findIndex((one) => one.key === key)].focus();
      },
    }, name + mark));
  }));
}

function showTable() {
  const rows = state.run.rows.map((row, at) => ({ ...row, at })).sort(compareRows);
  showHead();
  byId("answer-rows").replaceChildren(...rows.slice(0, state.shown).map((row) =>
    h("tr", { class: row.at === state.chosen ? "chosen" : null },
      columns().map(({ key, number }, first) => first
        ? h("td", { class: number ? "n" : null }, text(row[key]))
        : h("th", { scope: "row" }, h("button", {
          type: "button", "aria-pressed": String(row.at === state.chosen), "data-row": row.at,
          click: () => {
            Object.assign(state, { chosen: row.at, node: 0 });
            showTable();
            showRow();
            byId("answer-rows").querySelector('[aria-pressed="true"]')?.focus();
          },
        }, text(row.graph)))))));
  byId("more").hidden = state.shown >= rows.length;
  byId("answers-shown").textContent = `${Math.min(state.shown, rows.length)} of ${rows.length} rows`;
}

// Answers under other numberings, the given one and the truth on one line.
function drawStrip(row) {
  const marks = [["other", row.values], ["given", [row.value]], ["truth", row.target === null ? [] : [row.target]]];
  const every = marks.flatMap(([, values]) => values).filter(Number.isFinite);
  const [low, high] = [Math.min(...every), Math.max(...every)];
  const at = (value) => (high > low ? (320 * (value - low)) / (high - low) : 160);
  draw(
    byId("strip"), [-30, -26, 380, 64], `The ${state.run.strip} under ${row.values.length} other numberings and the given one, from ${text(low)} to ${text(high)}`,
    s("path", { class: "grid", d: path([[0, 0], [320, 0]]) }),
    marks.map(([kind, values]) => values.filter(Number.isFinite).map((value) => s("circle", { class: `dot ${kind}`, r: kind === "other" ? 5 : 7, cx: at(value), cy: 0 }))),
    s("text", { class: "tick", x: at(low), y: 26 }, text(low)),
    high > low ? s("text", { class: "tick", x: 320, y: 26 }, text(high)) : null,
  );
}

function said(row, graph) {
  const moved = row.moved === null
    ? "It was not renumbered."
    : row.moved === 0 ? `With ${state.run.numberings} other numberings of neighbours the answer stays the same.`
      : `With ${state.run.numberings} other numberings of neighbours the answer moves by ${text(row.moved)} on average, ${text(row.largest)} at most.`;
  const size = graph ? ` Drawn: ${count(graph.n, "node")}, ${count(graph.edges.length, "edge")}.` : " It is not drawn.";
  const pair = row.truth === null && row.answer === null ? "" : `truth ${text(row.truth)}, answer ${text(row.answer)}, `;
  return `${row.graph}: ${pair}error ${text(row.error)}.${size} ${moved}`;
}

function showRow() {
  const row = state.run.rows[state.chosen];
  const graph = row && row.drawing !== null ? state.run.drawings[row.drawing] : null;
  byId("row-said").textContent = row ? said(row, graph) : "";
  byId("row-figure").hidden = !graph;
  byId("strip-figure").hidden = !row?.values?.length;
  if (row?.values?.length) drawStrip(row);
  if (!graph) return;
  graph.near ??= adjacency(graph.n, graph.edges);
  graph.laid ??= scaled(layOut(graph.n, graph.near));
  const colours = Object.fromEntries(graph.near[state.node]?.map((one) => [one, "near"]) ?? []);
  picture.show({ ...graph, name: String(row.graph), places: graph.laid }, { chosen: state.node, colours });
  const { node } = state;
  const name = (at) => `node ${graph.names[at]}${graph.labels ? ` (${graph.labels[at]})` : ""}`;
  const answer = row.nodes ? ` Truth ${text(row.nodes.truth[node])}, answer ${text(row.nodes.answer[node])}.` : "";
  const centre = row.centre === null || row.centre === node ? "" : ` The answer above is that of ${name(row.centre)}.`;
  byId("node-said").textContent = `Chosen: ${name(node)}, ${count(graph.near[node].length, "neighbour")}.${answer}${centre}`;
}

export function startAnswers(run) {
  if (!run) return;
  state.run = run;
  byId("run").hidden = false;
  byId("run-link").hidden = false;
  byId("run-title").textContent = run.name;
  byId("run-about").textContent = run.about;
  byId("strip-what").textContent = `The ${run.strip}:`;
  byId("strip-truth").hidden = run.strip !== "answer";
  picture = new Picture(byId("row-picture"), (node) => {
    state.node = node;
    showRow();
  });
  byId("more").addEventListener("click", () => {
    state.shown += PAGE;
    showTable();
  });
  state.chosen = Math.max(0, run.rows.findIndex((row) => row.drawing !== null));
  showTable();
  showRow();
}
