// Panel 2: what an arrangement has read is an arc of σ's cycle, and what is to come is the opposite arc.
import { arrangement, order } from "./group.js";
import { arcs, drawGates, sumByArrangements, sumByScans, terms } from "./linear.js";
import { byId, digits, draw, h, linked, onCircle, path, s } from "./dom.js";

const state = { n: 8, k: 0, t: 3, seed: 0 };
const named = (i) => String(i + 1);

// An arc of places next to each other, as a thick line along the circle.
function along(places, radius, length) {
  if (!places.length) return "";
  const points = [];
  for (const place of places) {
    for (let part = -0.45; part <= 0.45; part += 0.15) {
      const turn = (2 * Math.PI * (place + part)) / length;
      points.push([radius * Math.sin(turn), -radius * Math.cos(turn)]);
    }
  }
  return path(points);
}

function drawArcs({ ring }, { read, come }, sequence) {
  const { n, t } = state;
  const length = ring.length;
  const places = onCircle(length, 130);
  const last = read.length ? read.at(-1) : -1;
  const kind = (place) => (place === last ? "last" : read.includes(place) ? "read" : "come");
  draw(
    byId("ring"), [-190, -190, 380, 380],
    `σ's cycle of ${length} neighbours: ${read.length} read, on an arc, and ${come.length} to come, on the opposite arc`,
    read.map((place) => s("path", { class: "arc read", d: along([place], 160, length) })),
    come.map((place) => s("path", { class: "arc come", d: along([place], 160, length) })),
    s("circle", { class: "track", r: 130 }),
    places.map(([x, y], place) =>
      s("g", { class: `node ${kind(place)}`, transform: `translate(${x} ${y})` },
        s("circle", { r: length > 24 ? 9 : 15 }), s("text", { "font-size": length > 24 ? 10 : 14 }, named(ring[place])))),
    n % 2
      ? s("g", { class: `node ${t > 0 ? "read" : "come"}` }, s("circle", { r: 15 }), s("text", { "font-size": 14 }, "1"),
          s("text", { class: "tick", y: 30 }, "stays first"))
      : s("text", { class: "tick" }, "v before and after"),
  );
  byId("arc-sequence").replaceChildren(
    ...["v", ...sequence.map(named), "v"].map((name, at) =>
      h("span", { class: at === 0 || at <= t ? "read" : "come" }, name)));
}

function describe({ ring }, { read, come }, gates) {
  const { n, k, t } = state;
  const list = (places) => places.map((place) => named(ring[place])).join(", ");
  if (!read.length) return `Arrangement ${k + 1}: nothing on the cycle has been read yet.`;
  const last = read.at(-1);
  const gate = come.reduce((product, place) => product * gates.a[ring[place]], 1);
  const side = come.length % 2 ? "begins right after" : "ends right before";
  const term = come.length % 2 ? "R" : "Λ";
  const rest = come.length
    ? `Still to come: ${list(come)}, an arc that ${side} ${named(ring[last])}. The input of ${named(ring[last])} is multiplied by its gates, ${digits(gate)}: one of the arcs in ${term} of ${named(ring[last])}.`
    : `Nothing is to come: the empty arc, 1, is one of those in Λ of ${named(ring[last])}.`;
  return `Arrangement ${k + 1} of ${order(n)} after ${t} of ${n} steps: ${list(read)} ${read.length === 1 ? "is" : "are"} an arc. ${rest}`;
}

function tabulate(found, gates, last) {
  const { n } = state;
  const cells = (values) => values.map((value) => h("td", { class: "n" }, value.toFixed(value < 10 ? 3 : 2)));
  const rows = found.ring.map((i, place) => {
    const both = gates.b[i] * (found.after[place] + found.before[place]);
    return h("tr", { class: place === last ? "chosen" : null },
      h("th", { scope: "row" }, named(i)), cells([gates.a[i], gates.b[i], found.after[place], found.before[place], both]));
  });
  const single = (name, i) => h("tr", null, h("th", { scope: "row" }, name), cells([gates.a[i], gates.b[i]]), h("td"), h("td"), h("td"));
  byId("terms").replaceChildren(...rows, ...(n % 2 ? [single("1, first", 0)] : []), single("v", n));
  const [box, row] = [byId("terms").closest(".tall"), byId("terms").querySelector(".chosen")];
  if (row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

function show() {
  const { n, k, t, seed } = state;
  const gates = drawGates(n, seed);
  const found = terms(gates, n);
  const sequence = arrangement(k, n);
  const parts = arcs(k, Math.max(0, t - (n % 2)), n);
  drawArcs(found, parts, sequence);
  byId("arc-said").textContent = describe(found, parts, gates);
  tabulate(found, gates, parts.read.length ? parts.read.at(-1) : -1);
  const [all, scans] = [sumByArrangements(gates, n), sumByScans(gates, n)];
  const steps = order(n) * (n + 2);
  byId("sums").replaceChildren(
    h("tr", null, h("th", { scope: "row" }, "all arrangements, one by one"), h("td", { class: "n" }, steps), h("td", { class: "n" }, all.toFixed(10))),
    h("tr", null, h("th", { scope: "row" }, "two scans of the cycle"), h("td", { class: "n" }, 2 * found.ring.length), h("td", { class: "n" }, scans.toFixed(10))),
  );
  const apart = Math.abs(all - scans);
  byId("sums-said").textContent = apart <= 1e-12 * Math.max(1, Math.abs(all))
    ? `Both sums agree: they differ by ${digits(apart)}, which is rounding.` : `The sums differ by ${digits(apart)}.`;
  byId("arc-k").max = byId("arc-k-slider").max = order(n);
  byId("arc-k").value = byId("arc-k-slider").value = k + 1;
  byId("arc-t").max = byId("arc-t-slider").max = n;
  byId("arc-t").value = byId("arc-t-slider").value = t;
}

export function startArcs() {
  const setN = linked("arc-n", (n) => {
    Object.assign(state, { n, k: Math.min(state.k, order(n) - 1), t: Math.min(state.t, n) });
    show();
  });
  linked("arc-k", (k) => {
    state.k = k - 1;
    show();
  });
  linked("arc-t", (t) => {
    state.t = t;
    show();
  });
  byId("gates").addEventListener("click", () => {
    state.seed += 1;
    show();
  });
  setN(state.n);
}
