// What keeps people out of a page: no names, no order, no contrast, too wide. Returns the problems.
// The rules are those that axe and WCAG 2.2 (A and AA) have for what our pages are made of.
({ width }) => {
  const problems = [];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true })
    && element.getClientRects().length > 0;
  const told = (element) => `${element.outerHTML.replace(/\s+/g, " ").slice(0, 160)}`;
  const wrong = (rule, element) => problems.push(`${rule}: ${element ? told(element) : location.pathname}`);
  const check = (rule, fine, element) => { if (!fine) wrong(rule, element); };

  // -- names ------------------------------------------------------------------------------------

  const text = (element) => [...element.childNodes].map((node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.getAttribute("aria-hidden") === "true") return "";
    return node.getAttribute("aria-label") || node.getAttribute("alt") || text(node);
  }).join("").trim();
  const named = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((id) => text(document.getElementById(id) || document.createElement("i"))).join("");
    return element.getAttribute("aria-label") || (element.labels || []).length && text(element.labels[0])
      || element.getAttribute("alt") || text(element);
  };
  for (const field of all("input:not([type=hidden]), select, textarea").filter(shown)) {
    check("a field without a label", named(field), field);
  }
  for (const thing of all("a[href], button, summary, [role=button], [role=region], nav, output, meter, progress").filter(shown)) {
    check("something to use without a name", named(thing) || thing.matches("output"), thing);
  }
  for (const picture of all("img, canvas, [role=img], figure").filter(shown)) {
    const words = picture.matches("figure") ? picture.querySelector("figcaption") && text(picture) : named(picture);
    check("a picture without words", words, picture);
    check("a picture that is no picture to a screen reader", !picture.matches("canvas") || picture.getAttribute("role") === "img", picture);
  }
  for (const drawing of all("svg").filter((element) => shown(element) && !element.closest(".vega-embed"))) {
    check("a drawing without words", drawing.getAttribute("aria-hidden") === "true" || named(drawing), drawing);
  }

  // -- order ------------------------------------------------------------------------------------

  check("no language", document.documentElement.lang === "en");
  check("no title", document.title.trim().length > 3);
  check("not exactly one main", all("main").length === 1);
  check("not exactly one h1", all("h1").filter(shown).length === 1);
  check("zoom is taken away", !/user-scalable\s*=\s*no|maximum-scale/.test(document.querySelector("meta[name=viewport]").content));
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(shown)) {
    const here = Number(heading.tagName[1]);
    check("a heading that leaves out a level", here <= level + 1, heading);
    check("a heading without words", text(heading), heading);
    level = here;
  }
  const ids = all("[id]").map((element) => element.id);
  for (const id of new Set(ids)) check(`id ${id} is not unique`, ids.filter((other) => other === id).length === 1);
  for (const name of ["for", "aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const element of all(`[${name}]`)) {
      for (const id of element.getAttribute(name).split(/\s+/)) check(`${name} leads nowhere`, document.getElementById(id), element);
    }
  }
  for (const link of all("a[href^='#']")) check("a link within the page leads nowhere", document.getElementById(link.hash.slice(1)), link);
  for (const table of all("table").filter((element) => !element.closest("#vg-tooltip-element"))) {
    check("a table without headings", table.querySelector("th"), table);
    for (const cell of all("th", table)) check("a heading of a table without a scope", /^(col|row)$/.test(cell.scope), cell);
    for (const cell of all("thead th", table)) check("a column without a name", text(cell) || cell.querySelector("[aria-label]"), cell);
  }
  for (const list of all("ul, ol")) check("a list with something else in it", [...list.children].every((item) => item.tagName === "LI"), list);
  for (const list of all("dl")) check("a list of terms with something else in it", [...list.children].every((item) => /^(DT|DD|DIV)$/.test(item.tagName)), list);
  for (const element of all("[tabindex]")) check("an order of its own for the keyboard", element.tabIndex <= 0, element);
  for (const element of all("a a, a button, button a, button button, label label")) wrong("one thing to use within another", element);
  for (const element of all("[aria-hidden=true] a, [aria-hidden=true] button, [aria-hidden=true] input")) wrong("hidden, but reached by the keyboard", element);

  // -- room ---------------------------------------------------------------------------------------

  const root = document.scrollingElement;
  if (root.scrollWidth > width) {
    const guilty = all("body *").filter((element) => element.getBoundingClientRect().right > width + 1
      && !element.parentElement.closest(".scroll, .top nav, .diff"));
    wrong(`the page is ${root.scrollWidth} wide, not ${width}`, guilty[guilty.length - 1]);
  }
  for (const box of all("body *").filter((element) => /auto|scroll/.test(getComputedStyle(element).overflowX))) {
    if (box.scrollWidth <= box.clientWidth + 1 || box.matches("textarea, select")) continue;
    check("cannot be scrolled with the keyboard", box.tabIndex >= 0 || box.querySelector("a[href], button, input"), box);
  }
  for (const thing of all("button, select, nav a, input[type=text], textarea").filter(shown)) {
    const box = thing.getBoundingClientRect();
    check("too small for a finger", box.width >= 24 && box.height >= 24, thing);
  }

  // -- contrast -----------------------------------------------------------------------------------

  const colour = (words) => {
    const numbers = words.match(/-?[\d.]+(e-?\d+)?%?/g).map((n) => n.endsWith("%") ? parseFloat(n) / 100 : Number(n));
    const wide = words.startsWith("color(");
    const [r, g, b, alpha = 1] = numbers;
    return { rgb: wide ? [r, g, b] : [r / 255, g / 255, b / 255], alpha };
  };
  const over = (front, back) => front.rgb.map((part, i) => part * front.alpha + back[i] * (1 - front.alpha));
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [1, 1, 1]);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const readable = (element, style, least) => {
    const front = colour(style.color);
    for (let at = element; at; at = at.parentElement) front.alpha *= Number(getComputedStyle(at).opacity);
    const back = ground(element);
    const found = ratio(over(front, back), back);
    check(`contrast ${found.toFixed(2)}`, found >= least, element);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (seen.has(element) || !walker.currentNode.data.trim() || !shown(element)) continue;
    if (element.closest("script, noscript, [disabled]")) continue;
    seen.add(element);
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    readable(element, style, large ? 3 : 4.5);
  }
  for (const field of all("input, textarea").filter(shown)) {
    if (field.placeholder) readable(field, getComputedStyle(field, "::placeholder"), 4.5);
    else if (field.value) readable(field, getComputedStyle(field), 4.5);
  }
  return [...new Set(problems)];
}
