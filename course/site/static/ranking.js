// How does the search rank pages? Words as Sphinx does; a known problem before a page that mentions it.
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("problems/") ? score + 12 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
