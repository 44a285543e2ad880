// The permutation σ of Eq. 2, its arrangements and the pairs they cover, as in pggnn/groups.py. Counts from 0.

export const FORMS = ["ring", "merged"];

// How many arrangements the group has.
export function order(n) {
  return n < 2 ? 1 : n - (n % 2);
}

// σ's one long cycle; an odd n has the fixed point 0 beside it.
export function cycle(n) {
  const places = [];
  for (let i = n % 2; i < n; i += 2) places.push(i);
  for (let i = n - 1; i > n % 2; i -= 1) if ((i - (n % 2)) % 2) places.push(i);
  return places;
}

// σᵏ(t): what arrangement k reads at step t.
export function slot(k, t, n) {
  const fixed = n % 2;
  if (t < fixed) return t;
  const length = n - fixed;
  const half = Math.floor((t - fixed) / 2);
  const start = (t - fixed) % 2 ? length - 1 - half : half;
  const place = (start + k) % length;
  return fixed + Math.min(2 * place, 2 * (length - place) - 1);
}

export function arrangement(k, n) {
  return Array.from({ length: n }, (_, t) => slot(k, t, n));
}

export function arrangements(n) {
  return Array.from({ length: order(n) }, (_, k) => arrangement(k, n));
}

// The ordered pairs that stand next to each other. Merged: the node itself stands at both ends, the ring stays open.
export function pairs(sequence, form) {
  const n = sequence.length;
  if (n < 2) return [];
  const found = sequence.map((i, t) => [i, sequence[(t + 1) % n]]);
  return form === "merged" ? found.slice(0, -1) : found;
}

// How often each ordered pair is covered: counts[i * n + j] of i read right before j.
export function coverage(sequences, n, form) {
  const counts = new Array(n * n).fill(0);
  for (const sequence of sequences) for (const [i, j] of pairs(sequence, form)) counts[i * n + j] += 1;
  return counts;
}

// Counts pairs regardless of direction as they meet for the first time.
export class Meetings {
  constructor(n, form) {
    Object.assign(this, { n, form, met: new Uint8Array(n * n), count: 0, total: (n * (n - 1)) / 2 });
  }

  read(sequence) {
    for (const [i, j] of pairs(sequence, this.form)) {
      const pair = Math.min(i, j) * this.n + Math.max(i, j);
      this.count += 1 - this.met[pair];
      this.met[pair] = 1;
    }
    return this.count;
  }
}

// Pairs that have met after each of the group's arrangements.
export function groupRace(n, form) {
  const meetings = new Meetings(n, form);
  return arrangements(n).map((sequence) => meetings.read(sequence));
}

// Numbers from 0 to 1, the same ones for the same seed (mulberry32).
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// A random order of n neighbours.
export function shuffled(n, random) {
  const sequence = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [sequence[i], sequence[j]] = [sequence[j], sequence[i]];
  }
  return sequence;
}

// Random orders, one after the other, until all pairs have met.
export function randomOrders(n, form, random) {
  const meetings = new Meetings(n, form);
  const sequences = [];
  while (meetings.count < meetings.total) {
    sequences.push(shuffled(n, random));
    meetings.read(sequences.at(-1));
  }
  return sequences;
}

// Pairs that have met after each random order, for several draws.
export function randomRaces(n, form, seed, draws) {
  const random = generator(seed);
  return Array.from({ length: draws }, () => {
    const meetings = new Meetings(n, form);
    return randomOrders(n, form, random).map((sequence) => meetings.read(sequence));
  });
}
