// Every element of the page with its place: what a picture of it can be pointed at.
// Runs in a world of its own, where nothing of the page can replace what is called here.
(most) => {
  const found = [];
  const walk = (element, parent) => {
    if (found.length >= most) return;
    const tag = element.localName;
    if (["script", "style", "noscript", "template", "head"].includes(tag)) return;
    const box = element.getBoundingClientRect();
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const here = found.length;
    let place = 1;
    for (let s = element.previousElementSibling; s; s = s.previousElementSibling)
      if (s.localName === tag) place += 1;
    found.push({
      parent, tag, place, own,
      id: element.id.slice(0, 100),
      classes: [...element.classList].slice(0, 20).map((name) => name.slice(0, 100)),
      box: [box.x + scrollX, box.y + scrollY, box.width, box.height],
      text: (element.innerText || "").slice(0, 300),
    });
    for (const child of element.children) walk(child, here);
  };
  if (document.body) walk(document.body, -1);
  return found;
}
