// The sum over the group for h ← a·h + b, of all arrangements one by one and in two scans, as in docs/linear.md.
import { arrangements, cycle, generator, order } from "./group.js";

// Gates and inputs of n neighbours and, last, of the node itself; two digits, so that all of it can be shown.
export function drawGates(n, seed) {
  const random = generator(seed);
  const draw = (low, high) => Math.round(100 * (low + (high - low) * random())) / 100;
  return { a: Array.from({ length: n + 1 }, () => draw(0.3, 0.99)), b: Array.from({ length: n + 1 }, () => draw(0, 1)) };
}

// By definition: every arrangement is read from the node through all neighbours back to the node.
export function sumByArrangements({ a, b }, n) {
  let sum = 0;
  for (const sequence of arrangements(n)) {
    let h = 0;
    for (const i of [n, ...sequence, n]) h = a[i] * h + b[i];
    sum += h;
  }
  return sum;
}

// The terms R and Λ of each place of the cycle: sums over the arcs that begin right after it, and that end right before.
export function terms({ a, b }, n) {
  const ring = cycle(n);
  const length = ring.length;
  const gate = (place) => a[ring[((place % length) + length) % length]];
  const product = ring.reduce((before, i) => before * a[i], 1);
  const after = new Array(length).fill(0);
  const before = new Array(length).fill(0);
  for (const parity of length ? [0, 1] : []) {
    let arc = 1;
    const last = length - 2 + parity;
    for (let size = 1; size < length; size += 1) {
      arc *= gate(last + size);
      if (size % 2) after[last] += arc;
    }
    for (let j = last - 2; j >= 0; j -= 2) after[j] = gate(j + 1) * (1 - product) + gate(j + 1) * gate(j + 2) * after[j + 2];
    arc = 1;
    for (let size = 0; size < length; size += 1) {
      if (size % 2 === 0) before[parity] += arc;
      arc *= gate(parity - 1 - size);
    }
    for (let j = parity + 2; j < length; j += 2) before[j] = 1 - product + gate(j - 1) * gate(j - 2) * before[j - 2];
  }
  const start = n % 2 ? a[0] * b[n] + b[0] : b[n]; // the node first, then the fixed point of an odd n
  return { ring, product, start, after, before };
}

// The same sum from these terms: O(n).
export function sumByScans(gates, n) {
  const { ring, product, start, after, before } = terms(gates, n);
  let sum = ring.length ? ring.length * product * start : start;
  ring.forEach((i, j) => {
    sum += gates.b[i] * (after[j] + before[j]);
  });
  return gates.a[n] * sum + order(n) * gates.b[n];
}

// Where arrangement k stands after t steps on the cycle: places read, in the order of reading, and places to come.
export function arcs(k, t, n) {
  const length = n - (n % 2);
  const wrap = (place) => ((place % length) + length) % length;
  const read = Array.from({ length: Math.min(t, length) }, (_, s) => wrap(s % 2 ? k - (s + 1) / 2 : k + s / 2));
  const come = [];
  const begins = read.length % 2 ? k + (read.length + 1) / 2 : k + read.length / 2; // right after the arc that was read
  for (let s = 0; s < length - read.length; s += 1) come.push(wrap(begins + s));
  return { read, come };
}
