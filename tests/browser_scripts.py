"""What tests ask of a page, in its own language."""

from pathlib import Path

ACCESSIBLE = (Path(__file__).parent / "browser_accessibility.js").read_text("utf-8")
"""What keeps people out of the page."""

ALARM = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
Object.defineProperty(window, "hurt", { set(what) { console.error(`executed: ${what}`); } });
"""
"""In every page, before its own scripts: speaks up when the policy is violated, and when what a
stranger wrote is executed (the hostile texts set `window.hurt`)."""

ALIVE = r"""() => {
  const active = "script:not([src]), iframe, object, embed, base, meta[http-equiv], "
    + "img:not([src^='/charts/'])";
  const leads = /^(href|src|action|formaction|xlink:href)$/;
  const alive = ({ name, value }) =>
    /^on/i.test(name) || leads.test(name) && /^\s*(javascript|data|vbscript):/i.test(value);
  return [...document.querySelectorAll("*")]
    .filter((element) => element.matches(active) || [...element.attributes].some(alive))
    .map((element) => element.outerHTML.slice(0, 200));
}"""
"""Elements that could do something that we have not written."""

COMPUTED = "() => document.readyState === 'complete' && !document.querySelector('[data-reload]')"
"""Whether the page will not load itself again."""

FOCUSED = """() => {
  const element = document.activeElement, style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const ringed = element.matches(":focus-visible") && style.outlineStyle !== "none";
  return {
    text: element.textContent.trim(),
    ring: ringed ? parseFloat(style.outlineWidth) : 0,
    inside: box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
    place: [...document.querySelectorAll("*")].indexOf(element),
    nothing: element === document.body,
  };
}"""
"""What has the focus, whether one can see that, and whether it is on the screen."""

REACHABLE = """() => {
  const used = "a[href], button, input:not([type=hidden]), select, textarea, summary, "
    + "[tabindex='0']";
  return [...document.querySelectorAll("*")]
    .map((element, place) => [element, place])
    .filter(([element]) => element.matches(used) && element.checkVisibility() && !element.disabled)
    .map(([, place]) => place);
}"""
"""Places of everything that can be used."""

UNFOLD = "() => document.querySelectorAll('details').forEach((part) => { part.open = true; })"

DOT = """(figure) => {
  const find = (item, x, y) => {
    const kind = item.mark && item.mark.marktype;
    const hostile = kind === "symbol" && JSON.stringify(item.datum).includes("hurt='name'");
    if (hostile) return [x + item.x, y + item.y];
    const [right, down] = kind === "group" ? [item.x || 0, item.y || 0] : [0, 0];
    for (const inner of item.items || []) {
      const found = find(inner, x + right, y + down);
      if (found) return found;
    }
    return null;
  };
  const canvas = figure.querySelector("canvas").getBoundingClientRect();
  const [left, top] = figure.view.origin(), padding = figure.view.padding();
  const [x, y] = find(figure.view.scenegraph().root, 0, 0);
  return [canvas.left + padding.left + left + x, canvas.top + padding.top + top + y];
}"""
"""Where the source with a hostile name stands in the figure of the plan."""
