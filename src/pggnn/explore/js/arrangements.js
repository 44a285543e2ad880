// Panel 1: the arrangements bring every pair of neighbours next to each other.
import { arrangement, arrangements, coverage, groupRace, order, pairs, randomRaces } from "./group.js";
import { byId, count, draw, linked, onCircle, path, s } from "./dom.js";

export const DRAWS = 100;
const state = { n: 7, k: 0, form: "ring", seed: 0, timer: 0 };

function drawCircle(sequence, earlier) {
  const { n, form } = state;
  const places = onCircle(n, 160);
  const size = n > 24 ? 9 : 15;
  const ends = form === "merged" ? [[sequence[0], "first"], [sequence[n - 1], "last"]] : [];
  draw(
    byId("circle"), [-190, -190, 380, 380],
    `${n} neighbours on a circle; the line joins them in the order ${sequence.map((i) => i + 1).join(", ")}`,
    s("path", { class: "old", d: earlier.map(([i, j]) => path([places[i], places[j]])).join("") }),
    ends.map(([i, kind]) => s("path", { class: `to-v ${kind}`, d: path([[0, 0], places[i]]) })),
    s("path", { class: "now", d: path(sequence.map((i) => places[i]), form === "ring") }),
    form === "merged" ? s("g", { class: "node centre" }, s("circle", { r: 17 }), s("text", null, "v")) : null,
    places.map(([x, y], i) =>
      s("g", { class: i === sequence[0] ? "node first" : "node", transform: `translate(${x} ${y})` },
        s("circle", { r: size }), s("text", { "font-size": n > 24 ? 10 : 14 }, i + 1))),
  );
}

function drawMatrix(counts, now) {
  const { n } = state;
  const cell = 330 / n;
  const current = new Set(now.map(([i, j]) => i * n + j));
  const every = n <= 14 ? 1 : 5;
  const cells = [];
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < n; j += 1) {
      const often = i === j ? "self" : ["none", "once", "twice"][Math.min(2, counts[i * n + j])];
      const kind = `cell ${often}${current.has(i * n + j) ? " now" : ""}`;
      cells.push(s("rect", { class: kind, x: j * cell + 0.5, y: i * cell + 0.5, width: cell - 1, height: cell - 1 }));
    }
  }
  const names = Array.from({ length: n }, (_, i) => i).filter((i) => i === 0 || (i + 1) % every === 0);
  const text = (i, attributes) => s("text", { class: "axis", ...attributes }, i + 1);
  draw(
    byId("matrix"), [-30, -30, 364, 364],
    `Matrix of pairs: row read first, column read next; ${count(counts.filter(Boolean).length, "ordered pair")} covered`,
    cells,
    names.map((i) => [text(i, { x: -12, y: (i + 0.5) * cell }), text(i, { x: (i + 0.5) * cell, y: -12 })]),
  );
}

// Median, least and most of numbers.
export function summary(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return { least: sorted[0], middle: sorted[Math.floor(sorted.length / 2)], most: sorted.at(-1) };
}

function drawRace(ours, races, total) {
  const lengths = summary(races.map((race) => race.length));
  const last = Math.max(lengths.most, ours.length);
  const [width, height] = [340, 200];
  const at = (step, met) => [(width * step) / last, height - (height * met) / total];
  const met = (race, step) => (step === 0 ? 0 : (race[step - 1] ?? total));
  const steps = Array.from({ length: last + 1 }, (_, step) => step);
  const bands = steps.map((step) => summary(races.map((race) => met(race, step))));
  const high = bands.map((band, step) => at(step, band.most));
  const low = bands.map((band, step) => at(step, band.least));
  const full = ours.indexOf(total) + 1;
  draw(
    byId("race"), [-42, -20, width + 56, height + 62],
    `Pairs that have met after each arrangement: the group has all after ${full}, random orders after ${lengths.least} to ${lengths.most}`,
    s("path", { class: "grid", d: path([at(0, total), at(last, total)]) + path([at(0, 0), at(last, 0)]) }),
    s("path", { class: "band", d: path([...high, ...low.reverse()], true) }),
    s("path", { class: "random", d: path(bands.map((band, step) => at(step, band.middle))) }),
    s("path", { class: "ours", d: path(steps.slice(0, ours.length + 1).map((step) => at(step, met(ours, step)))) }),
    s("circle", { class: "mark", r: 5, cx: at(state.k + 1, 0)[0], cy: at(0, ours[state.k])[1] }),
    [0, total].map((value) => s("text", { class: "tick end", x: -8, y: at(0, value)[1] }, value)),
    [...new Set([full, lengths.middle, last])].filter((step, i, all) => i === 0 || (width * (step - all[i - 1])) / last > 22)
      .map((step) => s("text", { class: "tick", x: at(step, 0)[0], y: height + 14 }, step)),
    s("text", { class: "tick", x: width / 2, y: height + 34 }, "arrangements read"),
    s("text", { class: "tick start", x: 0, y: -11 }, "pairs met"),
  );
  byId("race-said").textContent =
    `The group needs ${count(full, "arrangement")} until ${total === 1 ? "the one pair has" : `all ${total} pairs have`} met; ` +
    `no orders do it in fewer than ${Math.ceil(total / (state.form === "ring" && state.n > 2 ? state.n : state.n - 1))}. ` +
    `Random orders needed ${lengths.least === lengths.most ? lengths.least : `${lengths.least} to ${lengths.most}, with a median of ${lengths.middle},`} in ${DRAWS} draws.`;
}

// What is special about odd and even n, from the counts themselves.
export function remark(n, form) {
  const counts = coverage(arrangements(n), n, form).filter((_, at) => Math.floor(at / n) !== at % n);
  const [never, twice] = [counts.filter((often) => often === 0).length, counts.filter((often) => often > 1).length];
  const turning = n % 2
    ? `${n} is odd: neighbour 1 stays where it is and the other ${n - 1} turn, so there are ${order(n)} arrangements.`
    : `${n} is even: all neighbours turn, so there are ${order(n)} arrangements.`;
  const often = never
    ? `All pairs meet, but ${never} of the ${counts.length} ordered pairs are missing: those where the ring would close. These are read in one direction only.`
    : twice
      ? `Together they cover each of the ${counts.length} ordered pairs, and ${twice} of them twice.`
      : `Together they cover each of the ${counts.length} ordered pairs exactly once.`;
  return `${turning} ${often}`;
}

let known = { key: "", ours: [], races: [] };

function show() {
  const { n, k, form, seed } = state;
  const total = (n * (n - 1)) / 2;
  const key = [n, form, seed].join();
  if (known.key !== key) known = { key, ours: groupRace(n, form), races: randomRaces(n, form, seed, DRAWS) };
  const sequence = arrangement(k, n);
  const read = arrangements(n).slice(0, k + 1);
  const counts = coverage(read, n, form);
  drawCircle(sequence, read.slice(0, -1).flatMap((one) => pairs(one, form)));
  drawMatrix(counts, pairs(sequence, form));
  drawRace(known.ours, known.races, total);
  const fresh = known.ours[k] - (k ? known.ours[k - 1] : 0);
  const shown = form === "merged" ? ["v", ...sequence.map((i) => i + 1), "v"] : sequence.map((i) => i + 1);
  byId("arrangement-said").textContent =
    `Arrangement ${k + 1} of ${order(n)} reads ${shown.join(" ")}. ${count(fresh, "pair")} ${fresh === 1 ? "meets" : "meet"} for the first time; ` +
    `${known.ours[k]} of ${count(total, "pair")} ${total === 1 ? "has" : "have"} met.`;
  byId("remark").textContent = remark(n, form);
  byId("k").value = byId("k-slider").value = k + 1;
  byId("k").max = byId("k-slider").max = order(n);
}

function stop() {
  clearInterval(state.timer);
  state.timer = 0;
  byId("play").textContent = "Play";
  byId("arrangement-said").setAttribute("aria-live", "polite");
}

function step(by) {
  state.k = (state.k + by + order(state.n)) % order(state.n);
  show();
  if (state.timer && state.k === order(state.n) - 1) stop();
}

function play() {
  if (state.timer) {
    stop();
    return;
  }
  byId("play").textContent = "Pause";
  byId("arrangement-said").setAttribute("aria-live", "off"); // a voice could not keep up
  if (state.k === order(state.n) - 1) step(1);
  state.timer = setInterval(() => step(1), 900);
}

export function startArrangements() {
  const setN = linked("n", (n) => {
    stop();
    Object.assign(state, { n, k: 0 });
    byId("k").max = byId("k-slider").max = order(n);
    show();
  });
  linked("k", (k) => {
    state.k = k - 1;
    show();
  });
  byId("play").addEventListener("click", play);
  byId("back").addEventListener("click", () => (stop(), step(-1)));
  byId("next").addEventListener("click", () => (stop(), step(1)));
  for (const radio of document.querySelectorAll("input[name=form]"))
    radio.addEventListener("change", () => {
      state.form = radio.value;
      show();
    });
  byId("redraw").addEventListener("click", () => {
    state.seed += 1;
    byId("redraw-said").textContent = `seed ${state.seed}`;
    show();
  });
  setN(state.n);
}
