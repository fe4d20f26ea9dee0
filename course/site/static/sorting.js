// Tables in a `sortable` box: a press on a column's head sorts by it, numbers as numbers.
const value = (row, column) => row.cells[column]?.textContent.trim() ?? "";
const PREFIXES = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };

// "1.49 TB/s" and "240 GB/s" are compared as what they say.
function number(text) {
  const [, figures, prefix] = text.replaceAll(",", "").match(/^([\d.]+)\s*([nµmkMGTP](?=B|FLOP|s\b))?/) ?? [];
  return figures === undefined ? Number.NaN : Number.parseFloat(figures) * (PREFIXES[prefix] ?? 1);
}

// What is no number stands below the numbers, whichever way they are sorted.
function compare(a, b, way) {
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) && Number.isNaN(y)) return way * a.localeCompare(b);
  if (Number.isNaN(x)) return 1;
  if (Number.isNaN(y)) return -1;
  return way * (x - y);
}

function sort(table, head, column) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const way = up ? 1 : -1;
  body.append(...[...body.rows].sort((a, b) => compare(value(a, column), value(b, column), way)));
}

for (const table of document.querySelectorAll(".sortable table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent.trim();
    button.addEventListener("click", () => sort(table, head, column));
    head.replaceChildren(button);
  });
}
