// A log-log line chart as SVG, in the colors of the page's theme.
import { element } from "./asking.js";

const NS = "http://www.w3.org/2000/svg";

function draw(name, attributes, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const text = (words, x, y, anchor = "start") => draw("text", { x, y, "text-anchor": anchor }, words);

// Powers of ten between two ends, at most about six.
function powers(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / 6));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + step * i));
}

/**
 * Draw lines of [x, y] points. A line may be `dashed` (not measured here), and `plain` ones have no dots.
 * `x` says what lies across, `labelY` turns a number into words, `ticksX` are the numbers at the bottom, else
 * powers of ten.
 */
export function chart({ width, height = 320, title, x, labelY, ticksX, lines }) {
  const every = lines.flatMap(({ points }) => points);
  const [left, right, top, bottom] = [94, 24, 14 + 20 * lines.length, 44];
  const scale = (values, from, to) => {
    const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
    return (value) => from + ((Math.log10(value) - low) / (high - low || 1)) * (to - from);
  };
  const [xs, ys] = [every.map(([value]) => value), every.map(([, value]) => value)];
  const [toX, toY] = [scale(xs, left, width - right), scale(ys, height - bottom, top)];
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img", "aria-label": alt(title, lines, x, labelY) });
  for (const value of powers(Math.min(...ys), Math.max(...ys))) {
    picture.append(draw("line", { x1: left, x2: width - right, y1: toY(value), y2: toY(value), class: "grid" }), text(labelY(value), left - 6, toY(value) + 4, "end"));
  }
  const ticks = ticksX ?? powers(Math.min(...xs), Math.max(...xs));
  for (const value of ticks.filter((_, i) => width > 500 || i % 2 === 1)) {
    picture.append(draw("line", { y1: top, y2: height - bottom, x1: toX(value), x2: toX(value), class: "grid" }), text(value.toLocaleString("en"), toX(value), height - bottom + 18, "middle"));
  }
  picture.append(text(x, (left + width - right) / 2, height - 6, "middle"));
  lines.forEach(({ name, points, dashed, plain }, i) => {
    const style = `series series-${i}${dashed ? " dashed" : ""}`;
    picture.append(draw("polyline", { points: points.map(([px, py]) => `${toX(px)},${toY(py)}`).join(" "), class: style }));
    if (!plain && !dashed) for (const [px, py] of points) picture.append(draw("circle", { cx: toX(px), cy: toY(py), r: 4, class: `dot-${i}` }));
    const at = 14 + 20 * i;
    picture.append(draw("line", { x1: left, x2: left + 28, y1: at - 4, y2: at - 4, class: style }), text(name, left + 36, at));
  });
  return element("figure", { class: "chart-figure" }, element("figcaption", {}, title), picture);
}

function alt(title, lines, x, labelY) {
  const ends = lines.map(({ name, points }) => {
    const [first, last] = [points[0], points.at(-1)];
    return `${name}: ${labelY(first[1])} at ${Number(first[0].toPrecision(2))}, ${labelY(last[1])} at ${Number(last[0].toPrecision(2))}`;
  });
  return `${title}, over ${x}. ${ends.join("; ")}.`;
}
