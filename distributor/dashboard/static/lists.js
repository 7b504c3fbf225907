// What the pages of topics and of groups have in common: a list to filter, or one of it.
import { $, ask, count, el, named, say, shown } from "./dom.js";

export const number = (value) => el("td", { className: "number", textContent: value == null ? "–" : count.format(value) });
export const text = (value, className = "") => el("td", {}, el("bdi", { className, textContent: value === null ? "none" : shown(value) }));
export const chosen = new URLSearchParams(location.search);

// A name that is no text in Unicode cannot stand in an address.
export function linked(name, page) {
  if (!name.isWellFormed()) return named(name);
  return el("a", { href: `${page}?${new URLSearchParams({ name })}` }, named(name));
}

function summary(state, words) {
  $("summary").dataset.state = state;
  say("summary", words);
}

export async function load(path, silent, words) {
  try {
    const found = await ask(path);
    const away = silent(found);
    if (away.length) summary("bad", `${shown(away.join(", "))} ${away.length === 1 ? "does" : "do"} not answer`);
    else summary("ok", words(found));
    return found;
  } catch (error) {
    summary("bad", shown(error.message));
    return null;
  }
}

export function filtered(rows, show) {
  const input = $("filter").text;
  const draw = () => show(rows.filter(([name]) => name.toLowerCase().includes(input.value.toLowerCase())).map(([, row]) => row()));
  $("filter").addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("input", draw);
  draw();
}
