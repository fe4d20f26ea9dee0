// Splits what doesn't fit on a slide over several, at the type sizes below, and then starts reveal.js.
const HEIGHT = 676, CODE_SIZES = [28, 25, 22, 20];
const bottom = (node) => node.getBoundingClientRect().bottom;
const shown = (slide) => [...slide.children].filter((one) => !one.matches("aside, h1, h2, h3"));
const limit = (slide) => slide.getBoundingClientRect().top + HEIGHT;
const fits = (slide) => shown(slide).every((one) => bottom(one) <= limit(slide));

// Moves the text of `pre` behind its line `count` into a copy of it.
function cutCode(pre, count) {
  const at = pre.textContent.split("\n").slice(0, count).join("\n").length;
  const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
  let before = 0, node = walker.nextNode();
  for (; before + node.length < at; node = walker.nextNode()) before += node.length;
  const range = document.createRange();
  range.setStart(node, at - before);
  range.setEndAfter(pre.lastChild);
  const rest = pre.cloneNode(false);
  rest.append(range.extractContents());
  const words = document.createTreeWalker(rest, NodeFilter.SHOW_TEXT);
  while (words.nextNode() && !(words.currentNode.data = words.currentNode.data.replace(/^\n+/, "")));
  return rest;
}

// How many lines of `pre` end above `end`: up to an empty line, where there is one in the second half.
function linesAbove(pre, end) {
  const lines = pre.textContent.trimEnd().split("\n"), top = pre.getBoundingClientRect().top;
  let count = lines.length;
  const measure = pre.cloneNode(false);
  pre.after(measure);
  for (; count > 0; count--) {
    measure.textContent = lines.slice(0, count).join("\n");
    if (measure.getBoundingClientRect().height <= end - top) break;
  }
  measure.remove();
  const blank = lines.lastIndexOf("", count);
  return count < lines.length && blank > count / 2 ? blank : count;
}

// Takes from `block` what lies below `end`, and returns it; null where nothing of it stays above.
function takeBelow(block, end) {
  const pre = block.matches("pre") ? block : block.querySelector("pre");
  if (pre) {
    const count = linesAbove(pre, end);
    if (count < 1) return null;
    const rest = cutCode(pre, count);
    if (block === pre) return rest;
    const around = block.cloneNode(false);
    around.append(rest);
    return around;
  }
  const list = block.matches("ul, ol") ? block : block.querySelector("tbody, ul, ol");
  const below = list ? [...list.children].filter((one) => bottom(one) > end) : [];
  if (!list || below.length === list.children.length) return null;
  const copy = block.cloneNode(true);
  const other = list === block ? copy : copy.querySelector("tbody, ul, ol");
  if (list.matches("ol")) other.start = (list.start || 1) + list.children.length - below.length;
  other.replaceChildren(...below);
  return copy;
}

// Whether a line of code takes several lines of the slide.
function wraps(slide) {
  return [...slide.querySelectorAll(":scope > :not(aside) pre, :scope > pre")].some((pre) => {
    const style = getComputedStyle(pre), inside = pre.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    return inside > (pre.textContent.trimEnd().split("\n").length + 0.5) * parseFloat(style.lineHeight);
  });
}

// Takes the largest type at which all fits and no line wraps, else the largest at which all fits.
function shrink(slide) {
  const set = (size) => slide.style.setProperty("--code", `${size}px`);
  for (const good of [(one) => fits(one) && !wraps(one), fits])
    for (const size of CODE_SIZES) {
      set(size);
      if (good(slide)) return;
    }
}

function split(slide, heading) {
  shrink(slide);
  const over = shown(slide).find((one) => bottom(one) > limit(slide));
  if (!over) return;
  const first = shown(slide)[0] === over, rest = takeBelow(over, limit(slide));
  if (first && !rest) return;
  const next = slide.cloneNode(false), blocks = shown(slide);
  next.removeAttribute("data-timing");
  next.style.removeProperty("--code");
  if (heading) next.append(heading.cloneNode(true));
  next.append(rest || over, ...blocks.slice(blocks.indexOf(over) + 1));
  slide.after(next);
  split(next, heading);
}

// What comes on one click, as blocks of their own, which may go to different slides.
for (const [click, group] of document.querySelectorAll(".fragment").entries()) {
  const blocks = [...group.children];
  for (const block of blocks.filter((one) => !one.matches("aside"))) {
    block.classList.add("fragment");
    block.dataset.fragmentIndex = click;
  }
  group.replaceWith(...blocks);
}
const slides = document.querySelector(".slides");
let heading = null;
slides.classList.add("measured");
for (const slide of [...document.querySelectorAll(".slides > section > section")]) {
  const own = [...slide.querySelectorAll(":scope > h2, :scope > h3")].at(-1);
  if (!own && heading) slide.prepend(heading.cloneNode(true));
  heading = own || heading;
  if (slide.querySelector("img")) slide.classList.add("figure");
  const bold = slide.querySelector(":scope > p > strong:first-child");
  if (bold?.textContent.startsWith("Predict")) slide.classList.add("question");
  split(slide, slide.querySelector("h1") ? null : heading);
}
for (const slide of document.querySelectorAll(".slides > section > section")) {
  const blocks = shown(slide);
  if (blocks.every((one) => one.matches(".fragment")))  // or the slide would be empty before the first click
    blocks[0]?.classList.remove("fragment");
}
slides.classList.remove("measured");
Reveal.initialize({
  width: 1280, height: 720, margin: 0, hash: true, center: false, slideNumber: "c/t", transition: "none",
  navigationMode: "linear", defaultTiming: 0, pdfSeparateFragments: false, plugins: [RevealNotes],
});
