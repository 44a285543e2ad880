// Starts all panels, and offers the formulas to the browser's console as `pggnn`.
import { startAnswers } from "./answers.js";
import { DRAWS, remark, startArrangements, summary } from "./arrangements.js";
import { startArcs } from "./arcs.js";
import { byId } from "./dom.js";
import { MOST_RING, parseEdges, startGraphs } from "./graphs.js";
import { arrangement, arrangements, coverage, cycle, generator, groupRace, order, pairs, randomOrders, randomRaces, shuffled, slot } from "./group.js";
import { arcs, drawGates, sumByArrangements, sumByScans, terms } from "./linear.js";
import { adjacency, findRings, layOut, ringsOf } from "./rings.js";

const { bundled, run } = JSON.parse(byId("data").textContent);
startArrangements();
startArcs();
startGraphs(bundled);
startAnswers(run);
globalThis.pggnn = {
  DRAWS, MOST_RING, adjacency, arcs, arrangement, arrangements, bundled, coverage, cycle, drawGates, findRings, generator, groupRace, layOut, order, pairs,
  parseEdges, randomOrders, randomRaces, remark, ringsOf, run, shuffled, slot, sumByArrangements, sumByScans, summary, terms,
};
