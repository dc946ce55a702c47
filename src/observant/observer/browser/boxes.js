// Every element of the page with its place: what a picture of it can be pointed at. Shadow roots,
// slots and frames of the same origin are in place, as in `document.js`, so selectors fit both.
// Runs in a world of its own, where nothing of the page can replace what is called here.
(most) => {
  const found = [];
  let foreign = 0;
  const frames = ["iframe", "frame"];
  const inside = (element) => {
    try { return element.contentDocument && element.contentDocument.body; } catch { return null; }
  };
  const children = (element) => {
    if (frames.includes(element.localName)) return [...(inside(element)?.children || [])];
    if (element.shadowRoot) return [...element.shadowRoot.children];
    const given = element.localName === "slot" ? element.assignedElements({ flatten: true }) : [];
    return given.length ? given : [...element.children];
  };
  const walk = (element, parent, place, left, top) => {
    if (found.length >= most) return;
    if (["script", "style", "noscript", "template", "head"].includes(element.localName)) return;
    const frame = frames.includes(element.localName), inner = frame ? inside(element) : null;
    const box = element.getBoundingClientRect();
    const within = inner || element.shadowRoot || element;
    const own = [...within.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const here = found.length, x = box.x + left, y = box.y + top;
    const elsewhere = frame && !inner;
    const text = elsewhere ? "A frame: " + element.src : within.innerText ?? within.textContent;
    found.push({
      parent, place, own: own || elsewhere,
      tag: frame ? "div" : element.localName,
      css: elsewhere ? `[data-frame="${(foreign += 1)}"]` : "",
      id: element.id.slice(0, 100),
      classes: [...element.classList].slice(0, 20).map((name) => name.slice(0, 100)),
      box: [x, y, box.width, box.height],
      text: (text || "").slice(0, 300),
    });
    const seen = {};
    for (const child of children(element)) {
      const tag = frames.includes(child.localName) ? "div" : child.localName;
      seen[tag] = (seen[tag] || 0) + 1;
      walk(child, here, seen[tag], inner ? x : left, inner ? y : top);
    }
  };
  if (document.body) walk(document.body, -1, 1, scrollX, scrollY);
  return found;
}
