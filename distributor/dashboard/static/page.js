// Shows what /api/events tells.
import { $, ask, count, el, fill, guarded, labelled, named, plural, say, shown } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const HISTORY = 60;
const LATE_S = 30;
const LINKS_SHOWN = 12;
const MANY_LINKS = 24;

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const rate = (value) => (value == null ? "–" : `${short.format(value)}/s`);
const bytes = (value) => {
  if (value == null) return "–";
  const unit = value < 1e3 ? 0 : value < 1e6 ? 1 : value < 1e9 ? 2 : 3;
  return `${(value / 1e3 ** unit).toPrecision(3) * 1} ${["B", "kB", "MB", "GB"][unit]}/s`;
};
const age = (seconds) => (seconds < 120 ? `${seconds.toFixed(1)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`);
const time = (ms) => new Date(ms).toLocaleTimeString();

function drawn(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const key = (link) => JSON.stringify([link.source, link.target, link.level]);

let topology = null;
let latest = null;
let origin = null;
let hops = [];
const history = new Map();
let rows = new Map();

/* ---- the tree ---- */

function drawTree() {
  rows = new Map();
  $("clusters").replaceChildren(
    ...ordered(topology.tree).map((name) => {
      const row = {
        state: el("span", { className: "facts" }),
        flags: el("span", { className: "flags" }),
        records: el("span"),
        rate: el("small"),
        line: drawn("polyline"),
      };
      row.button = el(
        "button",
        { type: "button", className: "cluster", ariaPressed: "false", onclick: () => trace(name === origin ? null : name) },
        el("span", {}, named(name), row.state),
        row.flags,
        el("span", { className: "chart" },
          drawn("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, row.line),
          el("span", { className: "rate" }, row.records, row.rate)),
      );
      rows.set(name, row);
      return el("li", {}, row.button);
    }),
  );
  drawBranches();
  drawArcs();
}

const ordered = (tree) => (typeof tree === "string" ? [tree] : tree.children.flatMap(ordered));
const depth = (tree) => (typeof tree === "string" ? 0 : 1 + Math.max(...tree.children.map(depth)));
const rowHeight = () => $("clusters").firstElementChild.getBoundingClientRect().height;
const narrow = () => matchMedia("(max-width: 46rem)").matches;

function drawBranches() {
  const svg = $("branches");
  const height = rowHeight();
  const step = narrow() ? 27 : 52;
  const width = depth(topology.tree) * step + 4;
  const leaves = ordered(topology.tree);
  const parts = [];
  const place = (tree, level) => {
    if (typeof tree === "string") return { x: width, y: (leaves.indexOf(tree) + 0.5) * height };
    const x = 14 + level * step;
    const children = tree.children.map((child) => place(child, level + 1));
    const y = (children[0].y + children.at(-1).y) / 2;
    for (const child of children) parts.unshift(drawn("path", { d: `M${x} ${y}V${child.y}H${child.x}` }));
    parts.push(drawn("circle", { cx: x, cy: y, r: 11 }), Object.assign(drawn("text", { x, y }), { textContent: tree.level }));
    return { x, y };
  };
  place(topology.tree, 0);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height * leaves.length);
  svg.replaceChildren(...parts);
}

function drawArcs() {
  const svg = $("arcs");
  const height = rowHeight();
  const leaves = ordered(topology.tree);
  const reach = (link) => Math.abs(leaves.indexOf(link.source) - leaves.indexOf(link.target));
  const furthest = Math.max(1, ...topology.links.map(reach));
  const width = topology.links.length ? (narrow() ? 54 : 150) : 0;
  svg.setAttribute("width", width);
  svg.setAttribute("height", height * leaves.length);
  svg.classList.toggle("many", topology.links.length > MANY_LINKS);
  svg.replaceChildren(
    ...topology.links.map((link) => {
      // What goes down leaves at the lower third of a card and arrives at the upper one; what
      // goes up the other way round: so no two arrows share their ends.
      const down = leaves.indexOf(link.target) > leaves.indexOf(link.source) ? 1 : -1;
      const from = (leaves.indexOf(link.source) + 0.5) * height + down * height * 0.12;
      const to = (leaves.indexOf(link.target) + 0.5) * height - down * height * 0.26;
      const out = 12 + ((width - 16) * 1.33 - 12) * Math.sqrt(reach(link) / furthest);
      return drawn("g", { "data-link": key(link) },
        drawn("path", { d: `M2 ${from}C${out} ${from} ${out} ${to} 9 ${to}` }),
        drawn("path", { class: "head", d: `M2 ${to}l9 -4.5v9z` }));
    }),
  );
  paint();
}

function paint() {
  const states = new Map((latest?.links ?? []).map((link) => [key(link), link]));
  const crossed = new Set(hops.map(key));
  $("arcs").classList.toggle("traced", origin !== null);
  for (const arrow of $("arcs").children) {
    const link = states.get(arrow.dataset.link);
    arrow.setAttribute("class", [
      link && (linkState(link)[0] === "ok" && link.records_per_s > 0 ? "flows" : linkState(link)[0]),
      crossed.has(arrow.dataset.link) && "hop",
    ].filter(Boolean).join(" "));
  }
  for (const [name, row] of rows) {
    const hop = hops.find((one) => one.target === name);
    const home = name === origin && hops.origin_flags;
    row.flags.textContent = hop ? hop.flags : home || "";
    row.button.ariaPressed = String(name === origin);
  }
}

async function trace(name) {
  origin = name;
  hops = [];
  if (name !== null) {
    const found = await ask(`/api/trace?from=${encodeURIComponent(name)}`);
    if (origin !== name) return;
    hops = Object.assign(found.hops, { origin_flags: found.flags });
  }
  paint();
  const unreached = name === null ? 0 : rows.size - 1 - new Set(hops.map((hop) => hop.target)).size;
  const ways = new Map();
  for (const hop of hops) {
    const [from, how] = [`${shown(hop.source)} → `, ` (level ${hop.level}, ${hop.flags})`];
    const place = JSON.stringify([from, how]);
    ways.set(place, [from, [...(ways.get(place)?.[1] ?? []), shown(hop.target)], how]);
  }
  const said = [...ways.values()].map(([from, targets, how]) => from + targets.join(", ") + how);
  say("way", name === null ? "" : `Published on ${shown(name)}: ${said.join("; ") || "stays there"}` +
    (unreached ? `. Does not reach ${plural(unreached, "cluster")}.` : "."));
}

/* ---- what every look tells ---- */

/** States in which a link copies nothing, and nobody has asked for that. */
const ILL = ["no answer", "silent", "stuck", "superseded", "unwritten"];

function linkState(link) {
  if (link.error) return ["bad", link.error];
  const stopped = link.diverged + link.overtaken + link.refused;
  if (stopped) return ["bad", `does not copy ${plural(stopped, "partition")}`];
  if (!["", "serving"].includes(link.state)) {
    const why = link.waits_for && `: waits for ${link.waits_for}`;
    return [ILL.includes(link.state) ? "bad" : "warn", link.state + why];
  }
  if (link.lag_seconds > LATE_S) return ["warn", "late"];
  return ["ok", link.lag_records ? "catching up" : "in step"];
}

function show(look) {
  latest = look;
  for (const cluster of look.clusters) {
    const row = rows.get(cluster.cluster);
    if (!row) continue;
    row.state.dataset.state = cluster.error ? "bad" : "ok";
    row.state.textContent = cluster.error ? shown(cluster.error) : plural(cluster.partitions, "partition");
    row.state.title = row.state.textContent;
    row.records.textContent = cluster.error ? "–" : count.format(cluster.records);
    row.rate.textContent = rate(cluster.records_per_s);
    const line = [...(history.get(cluster.cluster) ?? []), cluster.records_per_s ?? 0].slice(-HISTORY);
    history.set(cluster.cluster, line);
    const top = Math.max(1, ...line);
    const place = (at) => 100 - ((line.length - 1 - at) * 100) / (HISTORY - 1);
    row.line.setAttribute("points", line.map((value, at) => `${place(at)},${23 - (22 * value) / top}`).join(" "));
  }
  if (look.links.some((link, at) => link.target !== topology.links[at].target)) {
    // A link was aimed elsewhere.
    topology.links = look.links.map(({ source, target, level }) => ({ source, target, level }));
    drawArcs();
    if (origin !== null) trace(origin);
  }
  showLinks(look.links);
  showGateways(look.gateways);
  showProcesses(look.processes);
  showComparison(look.comparison);
  paint();
  const down = look.clusters.filter((cluster) => cluster.error).length;
  const bad = look.links.filter((link) => linkState(link)[0] === "bad").length;
  const late = look.links.filter((link) => linkState(link)[0] === "warn").length;
  const sick = look.processes.filter((one) => !["ok", "unknown"].includes(one.state)).length;
  const silent = new Set(look.clusters.filter((cluster) => cluster.error).map((cluster) => cluster.cluster));
  const never = look.recovery.filter((point) => point.seconds === null && !silent.has(point.origin) && !silent.has(point.cluster));
  const unheard = new Set(never.map((point) => point.origin)).size;
  const troubles = [
    down && `${plural(down, "cluster")} without answer`,
    bad && `${plural(bad, "link")} in trouble`,
    late && `${plural(late, "link")} late or at rest`,
    sick && `${plural(sick, "process")} not well`,
    unheard && `${plural(unheard, "cluster")} never heard by others`,
  ].filter(Boolean);
  $("summary").dataset.state = down || bad ? "bad" : troubles.length ? "warn" : "ok";
  say("summary", troubles.join(", ") ||
    `All well: ${plural(look.clusters.length, "cluster")}, ${plural(look.links.length, "link")}`);
  $("clock").textContent = `Live · ${time(look.at_ms)}`;
}

const GRAVITY = ["bad", "warn", "ok"];
let allLinks = false;

function showLinks(links) {
  const labels = ["Link", "State", "Lag", "Oldest", "Records/s", "Bytes/s", "Hop p99"];
  // The worst first; of many links those that are well are folded away.
  const gravity = (link) => GRAVITY.indexOf(linkState(link)[0]);
  const sorted = [...links].sort((one, other) => gravity(one) - gravity(other));
  const ill = sorted.filter((link) => linkState(link)[0] !== "ok").length;
  const folded = links.length > LINKS_SHOWN;
  $("all-links").hidden = !folded;
  $("all-links").textContent = allLinks ? "Show fewer links" : `Show all ${count.format(links.length)} links`;
  $("all-links").ariaExpanded = String(allLinks);
  fill("links", sorted.slice(0, folded && !allLinks ? Math.max(LINKS_SHOWN, ill) : links.length).map((link) => {
    const [state, word] = linkState(link);
    const cells = [
      el("td", {}, el("span", {}, named(link.source), " → ", named(link.target), " ", el("span", { className: "level", textContent: `level ${link.level}` }))),
      el("td", {}, el("span", { data: { state }, textContent: shown(word) })),
      ...[link.error ? "–" : count.format(link.lag_records), link.error ? "–" : age(link.lag_seconds), rate(link.records_per_s), bytes(link.bytes_per_s),
        link.hop_p99_ms == null ? "–" : `${link.hop_p99_beyond ? ">" : "≤"} ${count.format(link.hop_p99_ms)} ms`,
      ].map((text) => el("td", { className: "number", textContent: text })),
    ];
    return labelled(cells, labels);
  }));
}

const WORDS = { ok: "ok", "not ready": "warn", unwell: "bad", "no answer": "bad", hangs: "bad", refused: "warn", unknown: "unknown" };

function showGateways(gateways) {
  const labels = ["Gateway", "State", "Connections", "Requests/s", "In", "Out", "Partitions", "Members", "Lag"];
  const known = (value) => (value == null ? "–" : count.format(value));
  $("gateways-card").hidden = gateways.length === 0;
  fill("gateways", gateways.map((one) => {
    const begins = one.beginning ? ` + ${count.format(one.beginning)} beginning` : "";
    const cells = [
      el("td", {}, named(one.name)),
      el("td", {}, el("span", { data: { state: WORDS[one.state] }, textContent: one.state })),
      ...[known(one.connections), rate(one.requests_per_s), bytes(one.received_bytes_per_s), bytes(one.sent_bytes_per_s),
        known(one.serving) + begins, known(one.members), known(one.lag_records),
      ].map((text) => el("td", { className: "number", textContent: text })),
    ];
    return labelled(cells, labels);
  }));
}

function showProcesses(processes) {
  const clusters = new Map();
  for (const one of processes) clusters.set(one.cluster, [...(clusters.get(one.cluster) ?? []), one]);
  $("processes").replaceChildren(
    ...[...clusters].map(([cluster, all]) => {
      const sick = all.filter((one) => one.state !== "ok");
      const worst = ["bad", "warn", "unknown"].find((state) => sick.some((one) => WORDS[one.state] === state)) ?? "ok";
      const lines = sick.map((one) => el("li", { className: "soft" }, named(one.name), shown(` ${one.state}: ${one.reasons.join(", ")}`)));
      return el("li", {},
        el("span", { data: { state: worst } }, named(cluster)),
        el("span", { className: "soft", textContent: `  ${all.length - sick.length} of ${all.length} ok` }),
        el("ul", {}, ...lines));
    }),
  );
}

function showComparison(comparison) {
  $("compare").disabled = comparison.running;
  $("progress").hidden = !comparison.running;
  if (comparison.running) {
    say("compared", "Comparing …");
    $("progress").max = comparison.total || 1;
    $("progress").value = comparison.done;
    return;
  }
  if (comparison.at_ms === undefined) return;
  $("compared").dataset.state = comparison.equal ? "ok" : "bad";
  say("compared", comparison.equal
    ? `Equal at ${time(comparison.at_ms)}: ${plural(comparison.partitions, "partition")}, ${plural(comparison.records, "record")} read`
    : `Different at ${time(comparison.at_ms)}`);
  const lines = comparison.problems.map(shown);
  if (comparison.more) lines.push(`and ${comparison.more} more`);
  if (lines.join("\n") !== [...$("problems").children].map((line) => line.textContent).join("\n"))
    $("problems").replaceChildren(...lines.map((line) => el("li", { textContent: line })));
}

/* ---- questions ---- */

let partitions = null;

async function loadPartitions() {
  const found = await ask("/api/partitions");
  partitions = found.partitions;
  $("topics").replaceChildren(...[...new Set(partitions.map(([topic]) => topic))].map((topic) => el("option", { value: topic })));
  offerAddresses();
  return `${plural(partitions.length, "partition")}${found.more ? ` of ${count.format(partitions.length + found.more)}` : ""} to choose from`;
}

function offerAddresses() {
  const topic = $("record").topic.value;
  $("addresses").replaceChildren(
    ...(partitions ?? []).filter(([name]) => name === topic).map(([, address, head]) => el("option", { value: address, label: `0 to ${head}` })),
  );
}

async function find() {
  const query = new URLSearchParams(new FormData($("record")));
  const { copies } = await ask(`/api/record?${query}`);
  const there = copies.filter((copy) => copy.flags !== undefined).length;
  const labels = ["Cluster", "Copy flags", "Created", "Key", "Value"];
  const text = (value) => (value === null ? "none" : shown(value));
  $("copies").hidden = false;
  fill("copies", copies.map((copy) => {
    const cells = [
      el("td", {}, named(copy.cluster)),
      el("td", { className: "mono", textContent: copy.flags ?? (copy.error ? shown(copy.error) : "not there") }),
      ...(copy.flags === undefined ? ["", "", ""] : [new Date(copy.timestamp_ms).toISOString(), text(copy.key), text(copy.value)])
        .map((value) => el("td", {}, el("bdi", { textContent: value }))),
    ];
    return labelled(cells, labels);
  }));
  say("found", `On ${there} of ${plural(copies.length, "cluster")}`);
}

$("all-links").addEventListener("click", () => {
  allLinks = !allLinks;
  showLinks(latest.links);
});
$("refresh").addEventListener("click", guarded(async () => say("found", await loadPartitions()), "found"));
$("record").topic.addEventListener("input", offerAddresses);
$("record").topic.addEventListener("focus", guarded(() => partitions ?? loadPartitions(), "found"));
$("record").addEventListener("submit", guarded(find, "found"));
$("compare").addEventListener("click", guarded(async () => {
  $("compare").disabled = true;
  await ask("/api/compare", { method: "POST", headers: { "x-dashboard": "1" } });
}, "compared"));
addEventListener("resize", () => {
  if (topology) { drawBranches(); drawArcs(); }
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && origin !== null) trace(null);
});

/* ---- events ---- */

const events = new EventSource("/api/events");
events.addEventListener("topology", (event) => {
  topology = JSON.parse(event.data);
  say("name", shown(topology.name));
  document.title = `${shown(topology.name)} · Dafka distributor`;
  drawTree();
  if (latest) show(latest);
});
events.addEventListener("look", (event) => show(JSON.parse(event.data)));
events.addEventListener("error", () => {
  $("summary").dataset.state = "unknown";
  say("summary", "No connection to the dashboard; trying again");
});
