"""What axe says of a page; a color on a ground is judged once, not wherever it comes again."""

import pytest

#: Marks, of all elements whose text looks alike on the same ground, the first. Contrast depends on
#: nothing else, and judging it is most of axe's time.
MARK_SAMPLES_JS = """() => {
    document.querySelectorAll("[data-judged]").forEach((one) => one.removeAttribute("data-judged"));
    const grounds = new Map();
    const ground = (one) => {
        if (!one) return "";
        if (!grounds.has(one)) {
            const s = getComputedStyle(one);
            const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode];
            const free = ["absolute", "fixed", "sticky"].includes(s.position) ? one.className : "";
            const plain = "rgba(0, 0, 0, 0),none,1,none,normal";
            const said = String(own) === plain && !free ? "" : `${own} ${free}/`;
            grounds.set(one, said + ground(one.parentElement));
        }
        return grounds.get(one);
    };
    const met = new Set();
    for (const one of document.body.querySelectorAll("*")) {
        const text = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!text || !one.checkVisibility()) continue;
        const s = getComputedStyle(one);
        const around = getComputedStyle(one.parentElement).color;  // of a link: its text's
        const font = [s.fontSize, s.fontWeight, s.textShadow, s.textDecorationLine];
        const looks = [one.localName === "a", s.color, around, ...font, ground(one)].join("|");
        if (!met.has(looks)) one.setAttribute("data-judged", "");
        met.add(looks);
    }
    return met.size;
}"""
STOP_TRANSITIONS_JS = """() => {
    const style = document.createElement("style");
    style.textContent = "* { transition: none !important }";
    document.head.append(style);
    const met = new Set();
    for (const word of document.querySelectorAll(".highlight pre span[class]")) {
        if (met.has(word.className)) word.replaceWith(...word.childNodes);
        met.add(word.className);
    }
}"""
#: Stylesheets are the page's own: axe need not ask for them again.
_OPTIONS = {"resultTypes": ["violations"], "preload": False}


def violations(page, themes=()):
    """What axe finds in all of `page`, and in its colors once more under each other theme."""
    page.evaluate(pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT)
    page.evaluate(STOP_TRANSITIONS_JS)
    # Experimental in axe, since voice control needs it: the name of a button has the words on it.
    named = {"label-content-name-mismatch": {"enabled": True}}
    found = _run(page, rules={"color-contrast": {"enabled": False}, **named})
    found += _colors(page)
    for theme in themes:
        page.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
        found += [f"{theme}: {one}" for one in _colors(page)]
    return found


def _colors(page):
    assert page.evaluate(MARK_SAMPLES_JS) > 0
    return _run(page, "[data-judged]", runOnly=["color-contrast", "link-in-text-block"])


def _run(page, where="html", **options):
    answer = page.evaluate(
        "([where, options]) => axe.run(where, options)", [where, {**_OPTIONS, **options}]
    )
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in answer["violations"]
        for node in one["nodes"]
    ]
