// How does the search rank pages, and which words of a page does it show?
// Sphinx scores words. On top of that: a known problem that's named as asked comes first, then lessons
// whose headings say it, then the term; a page that only lists problems, or one for teachers, comes later.
const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
const SMALL = new Set("a an and for in is it no not of on out the to with".split(" "));
const wordsOf = (text) =>
  (text.toLowerCase().replaceAll("z", "s").match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !SMALL.has(word));

const wanted = wordsOf(asked);

// "profiler" and "profile", "quantization" and "quantize": the same beginning is enough.
function alike(one, other) {
  let same = 0;
  while (same < one.length && one[same] === other[same]) same += 1;
  return one === other || (same >= 5 && Math.abs(one.length - other.length) <= 4);
}

// How many of the words that were asked for are in these? From 0 to 1.
function share(words) {
  const there = wanted.filter((word) => words.some((other) => alike(word, other)));
  return wanted.length ? there.length / wanted.length : 0;
}

// Every heading of the site, with the page and the place where it stands.
const headings = () =>
  Object.entries(Search._index.alltitles).flatMap(([title, places]) => places.map(([file, id]) => ({ title, file, id })));
const headingsOf = (page) => headings().filter(({ file }) => Search._index.docnames[file] === page);

// A problem's heading: the shorter it is, the more of it was asked for.
const named = (heading) => (heading.toLowerCase().includes(asked) ? 34.5 : 26) + 40 / heading.length;

const termOf = (anchor) => anchor.replace("#term-", "").replaceAll("-", " ");

function rank(page, title, anchor, score) {
  if (page.startsWith("problems/")) return anchor ? named(title.split(" > ").pop()) : score - 10;
  if (page.startsWith("teaching/")) return score + (/^(handout|slide)s?$/.test(asked) ? 40 : -10); // these are for teachers
  if (page.startsWith("api/") && !/[._]/.test(asked)) return Math.min(score, 13); // a word, and no function's name
  if (page === "glossary" && anchor) return termOf(anchor).toLowerCase() === asked ? 20 : 12;
  if (!page.startsWith("lessons/")) return score;
  if (anchor) return score + 5;
  const inTitle = share(wordsOf(`${page} ${title}`));
  const below = share(headingsOf(page).flatMap((heading) => wordsOf(heading.title)));
  return Math.min(score, 5) + 9 + Math.max(22.2 * inTitle, 12 * below);
}

var Scorer = {
  score: ([page, title, anchor, , score]) => rank(page, title, anchor, score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// The 200 letters of a page that have most of the words; its title isn't news.
function excerpt(text, keywords) {
  const lower = text.toLowerCase();
  const places = keywords.flatMap((word) => [...lower.matchAll(RegExp(word.replace(/\W/g, "\\$&"), "g"))]);
  const starts = places.map(({ index }) => index).sort((a, b) => a - b);
  const later = starts.filter((at) => at > 60);
  let [best, most] = [starts[0] ?? 0, 0];
  for (const at of later.length ? later : starts) {
    const here = keywords.filter((word) => lower.slice(at, at + 200).includes(word)).length;
    if (here > most) [best, most] = [at, here];
  }
  const from = Math.max(0, lower.lastIndexOf(" ", Math.max(0, best - 40)) + 1);
  return `${from ? "… " : ""}${text.slice(from, from + 240).trim()}${from + 240 < text.length ? " …" : ""}`;
}

if (typeof Search !== "undefined") {
  Search.makeSearchSummary = (html, keywords, anchor) => {
    const term = anchor?.startsWith("#term-") && new DOMParser().parseFromString(html, "text/html").querySelector(anchor);
    const said = term ? `${termOf(anchor)}: ${term.nextElementSibling.textContent}` : Search.htmlToText(html, anchor);
    const text = said.replace(/\s+/g, " ").trim();
    if (!text) return null;
    const summary = document.createElement("p");
    summary.classList.add("context");
    summary.textContent = excerpt(text, [...keywords].map((word) => word.toLowerCase()));
    return summary;
  };
  // Sections of known problems whose heading has all words, however long it is.
  const plain = Search._performSearch;
  Search._performSearch = (...given) => {
    const found = plain(...given);
    const { docnames, filenames, titles } = Search._index;
    for (const { title, file, id } of headings())
      if (id && docnames[file].startsWith("problems/") && share(wordsOf(title)) === 1)
        found.push([docnames[file], `${titles[file]} > ${title}`, `#${id}`, null, named(title), filenames[file], "title"]);
    for (const one of found) {
      if (one[0] !== "glossary" || !one[2]) continue;
      [one[1], one[3]] = [`Glossary > ${termOf(one[2])}`, null]; // what has no description gets an excerpt
    }
    const seen = new Map();
    for (const one of found) {
      const key = one[0] + one[2];
      if (!seen.has(key) || seen.get(key)[4] < one[4]) seen.set(key, one);
    }
    return [...seen.values()].sort((one, other) => one[4] - other[4] || other[1].localeCompare(one[1]));
  };
}
