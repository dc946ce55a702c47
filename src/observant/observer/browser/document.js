// The document as it stands, as HTML: shadow roots, slots and frames of the same origin in place.
// Runs in a world of its own, where nothing of the page can replace what is called here.
(limit) => {
  const VOID = new Set("area base br col embed hr img input link meta source track wbr".split(" "));
  const parts = [];
  let size = 0;
  const emit = (text) => {
    size += text.length;
    if (size > limit) throw new Error("the document is longer than " + limit + " characters");
    parts.push(text);
  };
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const children = (node) => {
    for (let child = node.firstChild; child; child = child.nextSibling) walk(child);
  };
  const walk = (node) => {
    if (node.nodeType === 3) return emit(safe(node.data));
    if (node.nodeType !== 1) return;
    const tag = node.localName;
    const data = tag === "script" && node.type === "application/ld+json";
    if (tag === "noscript" || tag === "style" || (tag === "script" && !data)) return;
    const frame = tag === "iframe" || tag === "frame";
    const shown = frame ? "div" : tag;
    emit("<" + shown);
    for (const { name, value } of node.attributes)
      if (/^[\w:.-]+$/.test(name)) emit(" " + name + '="' + safe(value).replace(/"/g, "&quot;") + '"');
    emit(">");
    if (VOID.has(tag)) return;
    if (data) emit(node.textContent.replace(/<\//g, "<\\/"));
    else if (frame) {
      let inner = null;
      try { inner = node.contentDocument; } catch {}
      if (inner && inner.body) children(inner.body);
    } else if (node.shadowRoot) children(node.shadowRoot);
    else if (tag === "slot" && node.assignedNodes().length)
      node.assignedNodes({ flatten: true }).forEach(walk);
    else children(node);
    emit("</" + shown + ">");
  };
  let inlined = false;
  try { inlined = window !== window.top && window.frameElement !== null; } catch {}
  if (inlined) return { inlined, html: "" };
  if (document.documentElement) walk(document.documentElement);
  return { inlined, html: parts.join("") };
}
