// What all pages are made with. Everything that comes from outside is put in as text: nothing here
// turns a string into markup, and the pages' security policy would not run it if it did.

export const $ = (id) => document.getElementById(id);
export const count = new Intl.NumberFormat("en");
export const plural = (number, noun) => `${count.format(number)} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;

export function el(tag, properties = {}, ...children) {
  const { data = {}, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, data);
  element.append(...children);
  return element;
}

// Control and direction characters of a name are shown, not obeyed.
export const shown = (name) =>
  name.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
export const named = (name, className = "name") => el("bdi", { className, textContent: shown(name) });

export function say(id, text) {
  // Unchanged text is left alone, or screen readers would repeat it every two seconds.
  if ($(id).textContent !== text) $(id).textContent = text;
}

export function fill(table, lines) {
  $(table).tBodies[0].replaceChildren(...lines.map((cells) => el("tr", {}, ...cells)));
}

// On a small screen the column's name stands before each value.
export function labelled(cells, labels) {
  cells.forEach((cell, at) => (cell.dataset.label = labels[at]));
  return cells;
}

export async function ask(path, options) {
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

export const guarded = (work, id) => async (event) => {
  event.preventDefault();
  try {
    await work();
  } catch (error) {
    say(id, shown(error.message));
  }
};
