"use strict";
// Without this script the page shows the same, unsorted; it makes the controls visible.

for (const control of document.querySelectorAll(".choice, #theme")) control.hidden = false;

// Light or dark: by default as in the system.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// Tables: a click on a heading sorts by that column, numbers in descending order; a second click reverses it.
function sort(table, heading) {
  const column = [...heading.parentNode.children].indexOf(heading);
  const text = heading.dataset.sort === "text";
  const before = heading.getAttribute("aria-sort");
  const descending = before ? before === "ascending" : !text;
  const value = (row) => {
    const cell = row.children[column];
    if (text) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = text ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return descending ? -order : order;
  });
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading));
    heading.append(button);
  }
}

// A long table of classes: show only the names that contain the typed text.
for (const field of document.querySelectorAll(".find")) {
  const table = field.closest("section").querySelector("table");
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    }
  });
}

// Galleries: the first samples, or those whose true or predicted class is chosen.
for (const choice of document.querySelectorAll(".gallery select")) {
  const gallery = choice.closest(".gallery");
  const samples = [...gallery.querySelectorAll(".samples > li")];
  const first = samples.filter((sample) => !sample.hidden);
  choice.addEventListener("change", () => {
    const shown = choice.value === ""
      ? first
      : samples.filter((sample) => sample.dataset.classes.trim().split(" ").includes(choice.value));
    for (const sample of samples) sample.hidden = !shown.includes(sample);
    gallery.querySelector(".found").textContent = `${shown.length} shown`;
  });
}
