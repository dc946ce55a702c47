// Charts, the slider, and small comforts. Everything else works without this file.
"use strict";

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  // What a colour of a figure becomes on a dark page.
  const DARK = {
    "#2a78b8": "#5aa6e0", "#c2492f": "#ef8468", "#8a8f98": "#93a0ae", "#9cc3e0": "#3f6c91",
    "#b4bcc6": "#5b6774", "#d8b13c": "#e0be5c", "#dddddd": "#38424d", "#e8e8e8": "#2b343f",
    "#555555": "#aab6c3", "#555": "#aab6c3", "#444": "#aab6c3", "#444444": "#aab6c3",
    "#888": "#7d8a98", "#888888": "#7d8a98", "#4a4f7a": "#a9aede", "#222222": "#e6ebf1",
    "#eaf2f9": "#1d2730", "#12344f": "#cfe6f8", "#b9d6ec": "#2f5575", "#3a2f6b": "#cdbcff",
    "#d8943c": "#eaae62", "#7fb2da": "#44789f", "white": "#191f26", "black": "#e6ebf1",
  };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function recoloured(value) {
    if (Array.isArray(value)) return value.map(recoloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) =>
        [key, key === "values" ? inner : recoloured(inner)]));
    }
    return typeof value === "string" && value in DARK ? DARK[value] : value;
  }

  function fitted(spec, room) {
    let made = structuredClone(spec);
    if (dark.matches) made = recoloured(made);
    const font = getComputedStyle(document.body).fontFamily;
    const words = { labelColor: style("--muted"), titleColor: style("--muted"), labelFont: font,
      titleFont: font, titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 11 };
    const config = made.config || {};
    made.config = { ...config, background: null, font,
      axis: { ...config.axis, ...words, gridColor: style("--line"), domainColor: style("--line-strong"),
        tickColor: style("--line-strong") },
      // Three long names side by side do not fit into a column of the page.
      legend: { ...config.legend, ...words, labelFontSize: 12, symbolStrokeWidth: 2,
        ...(room < 600 ? { columns: 2 } : {}) },
      text: { ...config.text, font } };
    if (!made.hconcat && !made.vconcat) made.width = "container";
    // On a touch screen a finger on a chart scrolls the page.
    if (coarse) (made.layer || [made]).concat(made).forEach((part) => {
      if (part.params) part.params = part.params.filter((param) => param.bind !== "scales");
    });
    return made;
  }

  function say(box, text) {
    box.replaceChildren();
    const told = document.createElement("p");
    told.className = "missing";
    told.textContent = text;
    box.append(told);
  }

  async function fetched(address, box) {
    for (let tries = 0; tries < 90; tries += 1) {
      const answer = await fetch(address, { headers: { accept: "application/json" } });
      if (answer.status === 202) {
        if (tries === 0) say(box, "being computed …");
        await new Promise((done) => setTimeout(done, Math.min(400 * (tries + 1), 3000)));
        continue;
      }
      if (!answer.ok) return { missing: "this figure could not be loaded" };
      return answer.json();
    }
    return { missing: "this takes long: load the page again later" };
  }

  async function chart(figure) {
    const box = figure.querySelector(".drawing");
    const found = await fetched(figure.dataset.chart, box);
    if (found.missing) { say(box, found.missing); return; }
    const vega = await whenVega();
    const paint = async () => {
      if (figure.view) figure.view.finalize();
      box.replaceChildren();
      const made = await vega(box, fitted(found, box.clientWidth), {
        ast: true, actions: false, defaultStyle: false, renderer: "canvas",
        tooltip: { disableDefaultStyle: true, theme: "plain" },
      });
      figure.view = made.view;
      const drawn = box.querySelector("canvas");
      if (drawn) {
        drawn.setAttribute("role", "img");
        drawn.setAttribute("aria-label", figure.dataset.label || "chart");
      }
      const told = found.usermeta && found.usermeta.caption;
      if (told) figure.querySelector("figcaption .text").textContent = told;
      figure.dispatchEvent(new CustomEvent("drawn", { detail: found }));
    };
    await paint();
    dark.addEventListener("change", paint);
  }

  function whenVega() {
    return new Promise((done, failed) => {
      let waited = 0;
      const look = () => {
        if (window.vegaEmbed) done(window.vegaEmbed);
        else if ((waited += 50) > 20000) failed(new Error("Vega was not loaded"));
        else setTimeout(look, 50);
      };
      look();
    });
  }

  const figures = document.querySelectorAll("figure[data-chart]");
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      chart(entry.target).catch((problem) => {
        say(entry.target.querySelector(".drawing"), "this figure could not be drawn");
        console.error(problem);
      });
    }
  }, { rootMargin: "300px" });
  figures.forEach((figure) => seen.observe(figure));

  // -- the slider of β: α follows it along the curve -------------------------------------------

  const slider = document.querySelector("[data-slider]");
  if (slider) {
    const figure = document.querySelector(`figure[data-chart*="performance"]`);
    const curve = JSON.parse(slider.dataset.slider);
    const input = slider.querySelector("input[type=range]");
    const days = (position) => {
      const place = Number(position), low = Math.floor(place), high = Math.min(low + 1, curve.length - 1);
      return curve[low][0] + (place - low) * (curve[high][0] - curve[low][0]);
    };
    const at = (position, column) => {
      const place = Number(position), low = Math.floor(place), high = Math.min(low + 1, curve.length - 1);
      return curve[low][column] + (place - low) * (curve[high][column] - curve[low][column]);
    };
    const local = (text) => text.replace(".", document.documentElement.dataset.decimal);
    const duration = (value) => value === 0 ? "0" : value < 1 / 24 ? `${Math.round(value * 1440)} min`
      : value < 1 ? local(`${(value * 24).toPrecision(2)} h`) : local(`${value < 10 ? value.toFixed(1) : Math.round(value)} d`);
    const percent = (value) => local((100 * value).toFixed(1));
    const move = () => {
      const grace = days(input.value);
      document.querySelectorAll("[data-alpha]").forEach((part) => { part.textContent = percent(at(input.value, 1)); });
      document.querySelectorAll("[data-alpha-range]").forEach((part) => {
        part.textContent = part.dataset.alphaRange
          .replace("{low}", percent(at(input.value, 2))).replace("{high}", percent(at(input.value, 3)));
      });
      document.querySelectorAll("[data-grace]").forEach((part) => { part.textContent = duration(grace); });
      input.setAttribute("aria-valuetext", `grace ${duration(grace)}`);
      if (figure && figure.view) figure.view.signal("grace", grace).run();
    };
    input.addEventListener("input", move);
    if (figure) figure.addEventListener("drawn", move);
    slider.querySelectorAll("button").forEach((button) => { button.hidden = true; });
  }

  // -- lists ------------------------------------------------------------------------------------

  const all = document.querySelector("[data-pick-all]");
  const picks = () => [...document.querySelectorAll("input[name=id]")];
  const count = () => {
    const number = picks().filter((pick) => pick.checked).length;
    document.querySelectorAll("[data-picked]").forEach((part) => {
      part.textContent = number ? part.dataset.picked.replace("{n}", number) : part.dataset.none;
    });
  };
  if (all) {
    all.addEventListener("change", () => { picks().forEach((pick) => { pick.checked = all.checked; }); count(); });
    document.addEventListener("change", (event) => { if (event.target.name === "id") count(); });
    count();
  }

  document.querySelectorAll("select[data-submit]").forEach((select) => {
    select.addEventListener("change", () => select.form.requestSubmit());
  });
  document.querySelectorAll("button[data-without-script]").forEach((button) => { button.hidden = true; });

  // On a narrow screen the navigation scrolls: the page we are on is in view.
  const here = document.querySelector(".top nav [aria-current]");
  if (here) here.closest("nav").scrollLeft = here.offsetLeft - here.closest("nav").clientWidth / 2;

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    const text = button && button.dataset.confirm;
    if (text && !window.confirm(text)) event.preventDefault();
  });

  // -- a preview that follows what is typed ------------------------------------------------------

  const tried = document.querySelector("form[data-preview]");
  if (tried) {
    let waits = 0, asked = 0;
    const look = async () => {
      const mine = asked += 1;
      const answer = await fetch(tried.dataset.preview, { method: "POST", body: new FormData(tried) });
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
      if (found && mine === asked) document.getElementById("preview").replaceChildren(...found.childNodes);
    };
    tried.addEventListener("input", () => { clearTimeout(waits); waits = setTimeout(look, 600); });
  }

  // -- two pictures of a page --------------------------------------------------------------------

  for (const slider of document.querySelectorAll("input[data-shots]"))
    slider.addEventListener("input", () =>
      slider.parentElement.style.setProperty("--shown", `${slider.value}%`));
  // -- text of a difference that was marked is what can be ignored --------------------------------

  const marked = document.querySelector("form[data-marked] input[name=text]");
  if (marked) document.addEventListener("selectionchange", () => {
    const chosen = getSelection(), text = String(chosen).trim();
    if (text && chosen.anchorNode && document.querySelector(".diff").contains(chosen.anchorNode)) marked.value = text;
  });

  // On a narrow screen each row of a table is a card, and its cells say what they are.
  for (const table of document.querySelectorAll(".scroll table")) {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim().replace(/ [▲▼]$/, ""));
    for (const row of table.tBodies[0] ? table.tBodies[0].rows : []) {
      [...row.cells].forEach((cell, place) => { if (names[place]) cell.dataset.name = names[place]; });
    }
    table.classList.add("cards");
  }

  // -- answers that were not ready --------------------------------------------------------------

  // Exact times in the zone of whoever looks; the page itself has UTC.
  for (const time of document.querySelectorAll("time[datetime]")) {
    time.title = `${new Date(time.dateTime).toLocaleString(undefined, { timeZoneName: "short" })} (${time.title})`;
  }

  const waiting = document.querySelector("[data-reload]");
  if (waiting) {
    const reload = setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.reload || 3));
    // Whoever has begun to use the page is not interrupted.
    for (const deed of ["pointerdown", "keydown", "input"])
      addEventListener(deed, () => clearTimeout(reload), { once: true });
  }
})();
