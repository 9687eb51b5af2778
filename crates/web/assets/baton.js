// Live updates, keys, dialogs, ages. Every page works without it.
(() => {
  "use strict";
  const $ = (query, at = document) => at.querySelector(query);
  const $$ = (query, at = document) => [...at.querySelectorAll(query)];
  const root = document.documentElement, body = document.body, store = window.sessionStorage;
  const later = (name, value) => { document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; samesite=lax`; };

  // ---- time: the store's clock, ages and countdowns

  let ahead = Number(body.dataset.now || Date.now()) - Date.now();
  const now = () => Date.now() + ahead;
  const two = (number) => String(number).padStart(2, "0");
  const duration = (ms) => {
    ms = Math.max(0, ms);
    if (ms < 100) return `${Math.round(ms)} ms`;
    if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
    if (ms < 59500) return `${Math.round(ms / 1000)} s`;
    const units = ms < 3.6e6 ? [6e4, "min", 1e3, "s"] : ms < 8.64e7 ? [3.6e6, "h", 6e4, "min"] : [8.64e7, "d", 3.6e6, "h"];
    if (ms >= 8.64e8) return `${Math.floor(ms / 8.64e7).toLocaleString("en")} d`;
    ms = Math.max(ms, 6e4);
    const rest = Math.floor(ms % units[0] / units[2]);
    return `${Math.floor(ms / units[0])} ${units[1]}${rest ? ` ${two(rest)} ${units[3]}` : ""}`;
  };
  const age = (ms) => ms < 1000 ? "now" : ms >= 6e5 && ms < 3.6e6 ? `${Math.floor(ms / 6e4)} min` : duration(ms);
  let clocks = store.getItem("clocks") === "1", live = true;
  const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const tick = () => {
    if (document.hidden || !live) return;
    const at = now();
    for (const time of $$("time[data-at]")) {
      const age_first = time.dataset.as === "age";
      const since = at - time.dataset.at;
      say(time, age_first !== clocks ? (since < 0 ? `in ${age(-since)}` : age(since)) : time.dataset.clock);
    }
    for (const span of $$("[data-from]")) say(span, duration(at - span.dataset.from));
    for (const lease of $$(".lease[data-until]")) {
      const left = Math.max(0, lease.dataset.until - at), ttl = Number(lease.dataset.ttl) || 15000;
      const number = $("b", lease), ring = $(".fg", lease);
      if (number) say(number, `${Math.ceil(left / 1000)} s`);
      lease.classList.toggle("low", left * 3 < ttl);
      if (ring) ring.setAttribute("stroke-dasharray", `${Math.min(31.4, left / ttl * 31.4).toFixed(1)} 32`);
    }
  };
  setInterval(tick, 500);

  // ---- morph: one element becomes like another, but for what the reader does with it

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  const isBusy = (node) => node === document.activeElement && node.matches("input, textarea, select, [contenteditable]");
  const KEPT = { DETAILS: ["open"], DIALOG: ["open"] };
  const morph = (from, to) => {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) { from.replaceWith(to); return; }
    if (from.nodeType !== 1) { if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue; return; }
    if (from.isEqualNode(to) || isBusy(from) || from.hasAttribute("data-keep")) return;
    const kept = KEPT[from.nodeName] || [];
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !kept.includes(name) && name !== "aria-selected") from.removeAttribute(name);
    }
    for (const { name, value } of [...to.attributes]) {
      if (!kept.includes(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    if (from.nodeName === "DIALOG" && from.open) return;
    if (from.classList && at >= 0 && rows()[at] === from) from.classList.add("cursor");
    children(from, to);
  };
  const children = (from, to) => {
    const known = new Map();
    for (const child of from.childNodes) { const key = keyOf(child); if (key) known.set(key, child); }
    let place = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      const key = keyOf(wanted);
      let found = key ? known.get(key) : null;
      if (!key && place && !keyOf(place) && place.nodeName === wanted.nodeName) found = place;
      if (!found) { from.insertBefore(wanted, place); continue; }
      if (found !== place) from.insertBefore(found, place);
      const next = found.nextSibling;
      morph(found, wanted);
      place = next;
    }
    while (place) { const next = place.nextSibling; if (!(place.nodeType === 1 && place.contains(document.activeElement) && isBusy(document.activeElement))) place.remove(); place = next; }
  };
  const parsed = (html) => { const template = document.createElement("template"); template.innerHTML = html; return template.content.firstElementChild; };
  const put = (id, html) => {
    const old = document.getElementById(id), fresh = parsed(html);
    if (!old || !fresh) return;
    morph(old, fresh);
  };

  // ---- live: one stream for the page

  let stream = null, lost = 0, tries = 0, wait = 0, hidden = 0;
  const status = $("#live");
  const connected = (yes) => {
    if (yes === live && yes) return;
    live = yes;
    if (!status) return;
    status.classList.toggle("off", !yes);
    if (!yes && !lost) lost = Date.now();
    if (yes) lost = 0;
    const since = new Date(lost);
    say(status.firstElementChild, yes ? "Live" : `since ${two(since.getHours())}:${two(since.getMinutes())}:${two(since.getSeconds())}`);
    status.title = yes ? "" : "No connection. What you see is as it was then.";
  };
  const close = () => { stream?.close(); stream = null; clearTimeout(wait); };
  const open = () => {
    close();
    const here = $("#app") && body.dataset.live;
    if (!here) return;
    stream = new EventSource(`/live?at=${encodeURIComponent(here)}`);
    stream.addEventListener("open", () => { tries = 0; connected(true); });
    stream.addEventListener("patch", (event) => {
      const patch = JSON.parse(event.data);
      ahead = patch.now - Date.now();
      connected(true);
      if (patch.app) put("app", patch.app);
      for (const [id, html] of patch.parts || []) put(id, html);
      const title = `${patch.title} · Baton`;
      if (document.title !== title) document.title = title;
      selection(); tick();
      document.dispatchEvent(new CustomEvent("baton:patched"));
    });
    stream.addEventListener("error", () => {
      close();
      connected(false);
      // Not all at once.
      const pause = [1000, 2000, 5000, 15000][Math.min(tries++, 3)] * (0.7 + Math.random() * 0.6);
      wait = setTimeout(again, pause);
    });
  };
  // A session that has ended leads to the sign-in, and from there back.
  const signedOut = (answer) => {
    if (answer.status === 401) location.href = `/signin?next=${encodeURIComponent(location.pathname + location.search)}`;
    return answer.status === 401;
  };
  // Anything else is tried again.
  const again = async () => {
    try {
      const answer = await fetch("/live?at=/", { headers: { accept: "application/json" }, method: "HEAD" });
      if (signedOut(answer)) return;
    } catch { /* not there yet */ }
    open();
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(close, 30000);
    else if (!stream) open(); else tick();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });

  // ---- words at the edge of the page

  const toast = (text, tone = "ok") => {
    const box = document.createElement("div"), words = document.createElement("span");
    box.className = "toast"; box.setAttribute("role", tone === "bad" ? "alert" : "status");
    box.innerHTML = `<span class="c-${tone}"><svg class="i" aria-hidden="true"><use href="#i-${tone === "bad" ? "bad" : "ok"}"/></svg></span>`;
    words.textContent = text; box.append(words);
    $("#toasts")?.append(box);
    setTimeout(() => box.remove(), tone === "bad" ? 12000 : 6000);
    return box;
  };

  // ---- forms: sent without leaving the page, when it is followed

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post" || !$("#app") || form.dataset.plain !== undefined || form.action.endsWith("/signout")) return;
    event.preventDefault();
    const data = new URLSearchParams(new FormData(form, event.submitter));
    if (form.hasAttribute("data-selection")) for (const box of chosen()) data.append("id", box.value);
    const button = event.submitter; if (button) button.disabled = true;
    try {
      const answer = await fetch(form.action, { method: "POST", body: data, headers: { accept: "application/json" } });
      if (signedOut(answer)) return;
      const told = await answer.json().catch(() => ({}));
      $$(".wrong", form).forEach((one) => one.remove());
      if (!answer.ok) {
        const why = told.error || told.detail || `Not done (${answer.status}).`, field = told.field && form.elements.namedItem(told.field);
        if (!field?.focus) { toast(why, "bad"); return; }
        // What is wrong with a field stands below it.
        const words = document.createElement("p");
        words.className = "wrong"; words.setAttribute("role", "alert"); words.textContent = why;
        field.after(words); field.focus();
        return;
      }
      for (const box of $$("input.edit", form)) box.defaultValue = box.value;
      form.closest("dialog")?.close();
      if (told.html) { show(told.html); return; }
      if (told.toast) { clear(); watch(told.toast, told.watch); return; }
      if (told.said) toast(told.said);
      form.reset(); clear();
      if (told.go) location.href = told.go;
    } catch { toast("Not sent: the server cannot be reached. Nothing was changed.", "bad"); }
    finally { if (button) button.disabled = false; }
  });
  // A dialog that the server has made: a new key, a count before something is done.
  const show = (html) => {
    const dialog = parsed(html);
    if (!dialog) return;
    document.getElementById(dialog.id)?.remove();
    body.append(dialog); dialog.showModal();
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("cancel", (event) => { if (dialog.dataset.stays) event.preventDefault(); });
  };

  // An operation that goes on.
  const watch = async (html, address) => {
    const box = parsed(html);
    $("#toasts")?.append(box);
    for (;;) {
      await new Promise((done) => setTimeout(done, 1000));
      try {
        const answer = await fetch(address, { headers: { accept: "application/json" } });
        if (answer.status === 401 || answer.status === 404) return;
        const told = await answer.json();
        put(box.id, told.toast);
        if (told.over) { setTimeout(() => box.remove(), 15000); return; }
      } catch { /* the page says that there is no connection */ }
    }
  };

  // ---- clicks

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (!button) return;
    const what = button.dataset.do;
    if (what === "theme") {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      later("baton_theme", root.dataset.theme);
    } else if (what === "ask") {
      // A form that the server makes for this; without script the link leads to a page with it.
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      fetch(button.href, { headers: { accept: "application/json" } }).then(async (answer) => {
        if (signedOut(answer)) return;
        const told = await answer.json();
        told.html ? show(told.html) : toast(told.error, "bad");
      }).catch(() => { location.href = button.href; });
    } else if (what === "open") $(button.dataset.what)?.showModal();
    else if (what === "close") button.closest("dialog").close();
    else if (what === "copy") {
      const text = button.dataset.text || $("code, pre", button.parentElement)?.textContent || "";
      navigator.clipboard?.writeText(text).then(() => toast("Copied."), () => toast("The browser did not allow copying.", "bad"));
    } else if (what === "press") button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    else if (what === "clear") clear();
  });
  document.addEventListener("click", (event) => { if (event.target.nodeName === "DIALOG" && event.target.open && !event.target.dataset.stays) event.target.close(); });
  document.addEventListener("input", (event) => {
    // A number that has to be typed before something large is done.
    const box = event.target.closest("[data-type-this]");
    if (box) $("button:not([type=button])", box.form).disabled = box.value.replace(/\D/g, "") !== box.dataset.typeThis;
  });

  // What a field means, while somebody types.
  let previewing = 0;
  document.addEventListener("input", (event) => {
    const box = event.target.closest("[data-preview]"), form = box?.form, shown = form && $(".preview", form);
    if (!shown) return;
    clearTimeout(previewing);
    previewing = setTimeout(async () => {
      const fields = new URLSearchParams($$("[data-preview]", form).map((one) => [one.name, one.value]));
      const answer = await fetch(`${box.dataset.preview}?${fields}`).catch(() => null);
      if (answer?.ok) shown.innerHTML = await answer.text();
    }, 200);
  });

  // ---- selection

  const picked = new Set();
  const chosen = () => $$("td input[type=checkbox][name=id]:checked");
  const selection = () => {
    const boxes = $$("td input[type=checkbox][name=id]");
    for (const box of boxes) {
      box.checked = picked.has(box.value);
      box.closest("tr")?.setAttribute("aria-selected", box.checked);
    }
    const bar = $(".bulk"), all = $("[data-all]");
    if (!bar) return;
    bar.hidden = !picked.size && !all?.checked;
    for (const count of $$("[data-count]", bar)) say(count, all?.checked ? "all" : String(picked.size));
  };
  const clear = () => { picked.clear(); if ($("[data-all]")) $("[data-all]").checked = false; selection(); };
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches("th input[type=checkbox]")) $$("td input[type=checkbox][name=id]").forEach((one) => box.checked ? picked.add(one.value) : picked.delete(one.value));
    else if (box.matches("td input[type=checkbox][name=id]")) box.checked ? picked.add(box.value) : picked.delete(box.value);
    else if (box.matches("[data-all]")) { /* the bar says so */ }
    else if (box.matches("[data-submit-on-change]")) { box.form.requestSubmit(); return; }
    else return;
    selection();
  });

  // ---- the palette

  const palette = $("#palette"), field = palette && $("input[type=search]", palette), found = $("#found");
  let asked = 0;
  const options = () => found ? $$("[role=option]", found) : [];
  const mark = (to) => {
    const all = options(); if (!all.length) return;
    const index = Math.max(0, Math.min(all.length - 1, to));
    all.forEach((one, number) => one.setAttribute("aria-selected", number === index));
    all[index].scrollIntoView({ block: "nearest" });
  };
  const marked = () => options().findIndex((one) => one.getAttribute("aria-selected") === "true");
  field?.addEventListener("input", () => {
    clearTimeout(asked);
    asked = setTimeout(async () => {
      const text = field.value;
      try {
        const answer = await fetch(`${field.dataset.find}&q=${encodeURIComponent(text)}`);
        if (!signedOut(answer) && answer.ok && text === field.value) { found.innerHTML = await answer.text(); mark(0); }
      } catch { /* the page says that there is no connection */ }
    }, 120);
  });
  palette?.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(marked() + 1);
    else if (event.key === "ArrowUp") mark(marked() - 1);
    else if (event.key === "Enter" && marked() >= 0) { $("a, button", options()[marked()])?.click(); }
    else return;
    event.preventDefault();
  });

  // A number that was not saved.
  document.addEventListener("focusout", (event) => { if (event.target.matches("input.edit")) event.target.value = event.target.defaultValue; });

  // ---- keys

  let at = -1, going = 0;
  const rows = () => $$("tbody tr[data-row], a.wf-row");
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.key === "Escape" && isBusy(target)) { target.blur(); return; }
    if (target.matches("input:not([type=checkbox]), textarea, select") || event.altKey || event.isComposing) return;
    if (((event.metaKey || event.ctrlKey) && event.key === "k") || event.key === "/") {
      if (!palette) return;
      event.preventDefault(); palette.showModal(); field.select(); return;
    }
    if (event.metaKey || event.ctrlKey || $("dialog[open]")) return;
    if (going && Date.now() - going < 1500) { going = 0; $(`.nav a[data-key="${CSS.escape(event.key)}"]`)?.click(); return; }
    const all = rows();
    if (event.key === "j" || event.key === "k") {
      all[at]?.classList.remove("cursor");
      at = Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)));
      all[at]?.classList.add("cursor");
      ($("a", all[at] || body) || all[at])?.focus();
    } else if (event.key === "Enter" && target === body) $("a", all[at] || null)?.click();
    else if (event.key === "x") $("input[type=checkbox]", all[at] || document.createElement("i"))?.click();
    else if (event.key === "X") $("[data-all]")?.click();
    else if (event.key === "g") going = Date.now();
    else if (event.key === "t") { clocks = !clocks; store.setItem("clocks", clocks ? "1" : "0"); tick(); }
    else if (event.key === "?") $("#keys")?.showModal();
    else if (event.key === "Escape") clear();
    else document.dispatchEvent(new CustomEvent("baton:key", { detail: event.key }));
  });

  // ---- the log of a run

  const LINES_MAX = 5000;
  let log = null, fetching = false, follows = false, anchor = 0;
  const logButton = (name) => $(`[data-log=${name}]`);
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const setFollow = (yes) => { follows = yes; logButton("follow")?.setAttribute("aria-pressed", yes); if (yes) { log.scrollTop = 1e9; more(); } news(); };
  const end = () => Number($("#log-end")?.dataset.end || 0);
  const news = () => {
    const button = logButton("news"), count = end() - log.dataset.last;
    if (!button) return;
    button.hidden = follows || count <= 0 || !logButton("follow");
    say(button, `${count.toLocaleString("en")} new line${count === 1 ? "" : "s"}`);
  };
  const more = async () => {
    if (fetching || !follows || end() <= log.dataset.last) return;
    fetching = true;
    try {
      // A reader that is far behind goes on near the end.
      if (end() - log.dataset.last > LINES_MAX) { log.replaceChildren(); log.dataset.last = end() - 1000; }
      const answer = await fetch(`${log.dataset.lines}&after=${log.dataset.last}`);
      if (!answer.ok) return;
      const html = await answer.text();
      const stays = atEnd();
      log.dataset.last = answer.headers.get("x-log-last");
      log.insertAdjacentHTML("beforeend", html);
      for (let many = log.childElementCount - LINES_MAX; many > 0; many--) log.firstElementChild.remove();
      if (stays) log.scrollTop = 1e9;
    } catch { /* the page says that there is no connection */ }
    finally { fetching = false; }
    if (end() > log.dataset.last) setTimeout(more, 50);
  };
  const logs = () => {
    const found = $("ol.log[data-last]");
    if (!found) { log = null; return; }
    if (found === log) { news(); more(); return; }
    log = found;
    log.addEventListener("scroll", () => {
      if (!logButton("follow") || fetching) return;
      if (follows && !atEnd()) setFollow(false); else if (!follows && atEnd() && end() - log.dataset.last <= LINES_MAX) setFollow(true);
    });
    const on = $(".on", log);
    if (on) log.scrollTop = on.offsetTop - log.offsetTop - log.clientHeight / 3;
    else for (const ms of [0, 90]) setTimeout(() => { if (log === found) log.scrollTop = 1e9; }, ms);
    follows = logButton("follow")?.getAttribute("aria-pressed") === "true";
    news(); more();
  };
  document.addEventListener("baton:patched", logs);
  document.addEventListener("click", (event) => {
    const what = event.target.closest("[data-log]")?.dataset.log, line = event.target.closest(".log li[id] > a");
    if (what === "follow") setFollow(!follows);
    else if (what === "news") setFollow(true);
    else if (what === "times" || what === "wrap") {
      const off = log.classList.toggle(`no-${what}`);
      logButton(what).setAttribute("aria-pressed", !off);
    } else if (line && event.shiftKey && anchor) {
      event.preventDefault();
      const to = Number(line.textContent), [first, last] = [Math.min(anchor, to), Math.max(anchor, to)];
      for (const one of $$("li[id]", log)) { const number = Number(one.id.slice(1)); one.classList.toggle("on", number >= first && number <= last); }
      const here = new URL(location.href);
      here.searchParams.set("log", `${first}-${last}`); here.hash = `L${first}`;
      history.replaceState(null, "", here);
    } else if (line) anchor = Number(line.textContent);
  });
  document.addEventListener("baton:key", ({ detail }) => {
    if (!log) return;
    if (detail === "f") logButton("follow")?.click();
    else if (["n", "N", "e"].includes(detail)) $(`#log a[data-key="${detail}"]`)?.click();
  });

  // ---- the waterfall: a drag chooses a time, rows are loaded as they come into view

  const ROWS_MAX = 1200;
  let drag = null;
  const share = (mini, event) => { const box = mini.getBoundingClientRect(); return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)); };
  const part = (mini, from, to) => {
    const here = new URL(location.href), length = Number(mini.dataset.length);
    for (const [name, value] of [["from", from], ["to", to]]) value === null ? here.searchParams.delete(name) : here.searchParams.set(name, Math.round(value * length));
    here.searchParams.delete("row"); here.hash = "timeline";
    location.href = here;
  };
  document.addEventListener("pointerdown", (event) => {
    const mini = event.target.closest?.("svg.mini[data-length]");
    if (!mini || event.button) return;
    drag = { mini, from: share(mini, event) };
    mini.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const to = share(drag.mini, event), frame = $(".v", drag.mini);
    frame.setAttribute("x", Math.min(drag.from, to) * 600);
    frame.setAttribute("width", Math.max(2, Math.abs(to - drag.from) * 600));
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { mini, from } = drag, to = share(mini, event);
    drag = null;
    if (Math.abs(to - from) > .005) part(mini, Math.min(from, to), Math.max(from, to));
  });
  document.addEventListener("dblclick", (event) => { const mini = event.target.closest?.("svg.mini[data-length]"); if (mini) part(mini, null, null); });
  const coming = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) { coming.unobserve(target); load(target); }
  }, { rootMargin: "600px" });
  const load = async (place) => {
    try {
      const answer = await fetch(place.dataset.load);
      if (!answer.ok) return;
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      place.replaceWith(fresh.content);
      awaited();
    } catch { /* the link is still there */ }
  };
  const awaited = () => { if ($$("a.wf-row").length < ROWS_MAX) for (const place of $$("a[data-load]")) coming.observe(place); };
  document.addEventListener("baton:patched", awaited);

  // ---- from run to run

  const RUN = "a[href*='/runs/']";
  document.addEventListener("click", (event) => {
    const list = event.target.closest(`tr[data-row] ${RUN}`)?.closest("table");
    if (list) store.setItem("list", JSON.stringify($$("tr[data-row]", list).map((row) => $(RUN, row)?.getAttribute("href")).filter(Boolean)));
  }, true);
  document.addEventListener("baton:key", ({ detail }) => {
    if (detail !== "[" && detail !== "]") return;
    const list = JSON.parse(store.getItem("list") || "[]"), id = location.pathname;
    const index = list.findIndex((href) => href.split(/[?#]/)[0] === id), next = list[index + (detail === "]" ? 1 : -1)];
    if (index >= 0 && next) location.href = next;
  });

  // ---- begin

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isNewZone = zone && !document.cookie.includes(`baton_zone=${encodeURIComponent(zone)}`);
  if (isNewZone) later("baton_zone", zone);
  window.baton = { $, $$, signedOut, toast, morph, put, parsed, duration, age, now, show };
  selection(); tick(); logs(); awaited(); open();
})();
