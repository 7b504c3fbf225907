// All groups of consumers, or one: where it stands at each cluster, and how far behind.
import { $, count, el, fill, labelled, named, plural, shown } from "./dom.js";
import { chosen, filtered, linked, load, number, text } from "./lists.js";

async function all() {
  const labels = ["Group", "Clusters"];
  const more = (found) => (found.more ? `, and ${count.format(found.more)} more that are not shown` : "");
  const found = await load("api/groups", (one) => one.silent, (one) => plural(one.groups.length, "group") + more(one));
  filtered(found?.groups.map((one) => [one.group, () => labelled([
    el("td", {}, linked(one.group, "groups.html")), text(one.clusters.join(", ")),
  ], labels)]) ?? [], (rows) => fill("groups", rows));
}

async function one(name) {
  $("all").hidden = true;
  const silent = (found) => found.clusters.filter((row) => row.error).map((row) => row.cluster);
  const more = (told) => (told.more ? `, ${count.format(told.more)} positions are not shown` : "");
  const found = await load(`api/group?${chosen}`, silent, (told) => `On ${plural(told.clusters.length, "cluster")}${more(told)}`);
  if (!found) return;
  $("group").hidden = false;
  $("group-title").replaceChildren(named(name));
  fill("clusters-of", found.clusters.map((row) => labelled([
    el("td", {}, el("span", { data: { state: row.error ? "bad" : "ok" } }, named(row.cluster), row.error ? shown(` ${row.error}`) : "")),
    text(row.live === null ? "–" : row.live ? "alive" : "none"), number(row.partitions), number(row.lag),
  ], ["Cluster", "Members", "Partitions", "Lag"])));
  fill("positions", found.positions.map((row) => labelled([
    el("td", {}, linked(row.topic, "topics.html")), text(row.address.includes("/") ? row.address : row.address.slice(0, 8), "mono"), text(row.cluster),
    number(row.position), number(row.end), number(row.lag),
  ], ["Topic", "Partition", "Cluster", "Position", "End", "Lag"])));
}

await (chosen.get("name") === null ? all() : one(chosen.get("name")));
