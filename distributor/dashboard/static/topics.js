// All topics, or one: what clusters hold of it, its newest messages, its schemas.
import { $, count, el, fill, labelled, named, plural, say, shown } from "./dom.js";
import { chosen, filtered, linked, load, number, text } from "./lists.js";

async function all() {
  const labels = ["Topic", "Partitions", "Records", "Lacks"];
  const more = (found) => (found.more ? `, and ${count.format(found.more)} more that are not shown` : "");
  const found = await load("api/topics", (one) => one.silent, (one) => plural(one.topics.length, "topic") + more(one));
  filtered(found?.topics.map((one) => [one.topic, () => labelled([
    el("td", {}, linked(one.topic, "topics.html")), number(one.partitions), number(one.records), number(one.lacking),
  ], labels)]) ?? [], (rows) => fill("topics", rows));
}

async function one(name) {
  $("all").hidden = true;
  const silent = (found) => found.clusters.filter((row) => row.error).map((row) => row.cluster);
  const found = await load(`api/topic?${chosen}`, silent, (told) => `On ${plural(told.clusters.length, "cluster")}`);
  if (!found) return;
  $("topic").hidden = false;
  $("topic-title").replaceChildren(named(name));
  showClusters(name, found.clusters);
  showMessages(found.newest);
  showSchemas(found.schemas);
}

function showClusters(name, clusters) {
  const labels = ["Cluster", "Partitions", "Records", "Kept", "Lacks"];
  fill("clusters-of", clusters.map((row) => {
    const here = `topics.html?${new URLSearchParams({ name, cluster: row.cluster })}`;
    const state = row.error ? "bad" : row.lacking ? "warn" : "ok";
    const cluster = row.error ? named(row.cluster) : el("a", { href: here, title: "Its messages here" }, named(row.cluster));
    return labelled([
      el("td", {}, el("span", { data: { state } }, cluster, row.error ? shown(` ${row.error}`) : "")),
      number(row.partitions), number(row.records), number(row.kept), number(row.lacking),
    ], labels);
  }));
}

function showMessages(newest) {
  const labels = ["Created", "Partition", "Sequence", "Copy flags", "Key", "Value"];
  const some = newest.asked < newest.partitions ? ` of ${newest.asked} of ${plural(newest.partitions, "partition")}` : "";
  say("asked", newest.error ? shown(newest.error) : `At ${shown(newest.cluster)}${some}.`);
  fill("messages", newest.messages.map((row) => labelled([
    text(new Date(row.timestamp_ms).toISOString()), text(row.address.slice(0, 8), "mono"), number(row.sequence),
    text(row.flags, "mono"), text(row.key), text(row.value),
  ], labels)));
}

function showSchemas(schemas) {
  $("no-schemas").hidden = schemas.length > 0;
  $("schemas").replaceChildren(...schemas.map((row) => {
    if (row.error) return el("p", {}, el("span", { data: { state: "bad" } }, named(row.cluster), shown(` ${row.error}`)));
    return el("details", {},
      el("summary", {}, named(row.subject), ` · version ${row.version} · ${shown(row.language)}, id ${row.id} · `, named(row.cluster)),
      el("pre", { textContent: row.text.split("\n").map(shown).join("\n"), tabIndex: 0 }));
  }));
}

await (chosen.get("name") === null ? all() : one(chosen.get("name")));
