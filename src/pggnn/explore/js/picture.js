// A graph that is drawn, whose nodes can be chosen by pointer, touch and keyboard.
import { draw, path, s } from "./dom.js";

const HALF = 180;

// Places in the picture's own units, whatever those of the graph are.
export function scaled(places) {
  const range = (axis) => {
    const values = places.map((place) => place[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  if (!places.length) return [];
  const [[left, right], [top, bottom]] = [range(0), range(1)];
  const scale = (2 * (HALF - 22)) / Math.max(right - left, bottom - top, 1e-9);
  return places.map(([x, y]) => [(x - (left + right) / 2) * Math.min(scale, 150), (y - (top + bottom) / 2) * Math.min(scale, 150)]);
}

export class Picture {
  // choose(node) when one is chosen; place([x, y]) when something else is pressed. Without them it is only looked at.
  constructor(svg, choose, place) {
    Object.assign(this, { svg, choose, places: [] });
    svg.setAttribute("role", choose ? "group" : "img");
    if (!choose) return;
    svg.addEventListener("click", (event) => {
      const node = event.target.closest("[data-node]");
      if (node) this.choose(Number(node.dataset.node));
      else if (place) place(this.pointAt(event));
    });
    svg.addEventListener("keydown", (event) => this.press(event));
  }

  pointAt(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  press(event) {
    const at = event.target.closest("[data-node]");
    if (!at) return;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const node = Number(at.dataset.node);
    if (by) this.choose((node + by + this.places.length) % this.places.length);
    else if (event.key === "Enter" || event.key === " ") this.choose(node);
    else return;
    event.preventDefault();
    this.svg.querySelector('[data-node][tabindex="0"]')?.focus();
  }

  // looks: chosen node, colours of nodes by number, and a route of nodes that is read.
  show(graph, { chosen = 0, colours = {}, route = [] } = {}) {
    this.places = graph.places;
    const { n, edges, places } = graph;
    const focused = this.svg.contains(document.activeElement);
    const joined = new Set(edges.flatMap(([u, v]) => [u * n + v, v * n + u]));
    const size = n > 24 ? 9 : n > 14 ? 12 : 14;
    const line = (u, v, kind) => s("path", { class: kind, d: path([places[u], places[v]]) });
    const number = (node) => graph.names?.[node] ?? node + 1;
    const written = (node) => (graph.labels ? graph.labels[node].slice(0, 3) + (graph.names ? "" : number(node)) : number(node));
    const name = (node) => `Node ${number(node)}${graph.labels ? `, ${graph.labels[node]}` : ""}`;
    draw(
      this.svg, [-HALF, -HALF, 2 * HALF, 2 * HALF], `${graph.name}: ${n} nodes, ${edges.length} edges`,
      edges.map(([u, v]) => line(u, v, "edge")),
      route.slice(1).map((node, at) => line(route[at], node, joined.has(route[at] * n + node) ? "route" : "route apart")),
      places.map(([x, y], node) =>
        s("g", {
          class: `node ${colours[node] ?? ""}${node === chosen ? " chosen" : ""}`, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})`,
          ...(this.choose && { role: "button", tabindex: node === chosen ? 0 : -1, "data-node": node, "aria-pressed": String(node === chosen), "aria-label": name(node) }),
        }, s("circle", { r: 20, class: "touch" }), s("circle", { r: size }),
        s("text", { "font-size": size < 10 ? 9 : 12 }, written(node)))),
    );
    if (focused) this.svg.querySelector('[tabindex="0"]')?.focus();
  }
}
