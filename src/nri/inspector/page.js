"use strict";
// Draws the data of the sources. Texts of plugins, pods and containers become text nodes and attributes only.
const $ = id => document.getElementById(id);
const DATA = JSON.parse($("data").textContent);
const SVG = "http://www.w3.org/2000/svg", MAX_ROWS = 10000, COLOURS = 12, NARROW = matchMedia("(max-width: 700px)");
let token = "", timer = 0, turn = 0, overview = null, list = null, following = null, tooFast = 0, paused = false, hover = null;
const colours = new Map(), hidden = new Set(), sorts = {};

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value) element.setAttribute(name, value);
  for (const child of children.flat(2)) if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}
function drawing(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const link = (href, text, attributes) => h("a", {href, ...attributes}, text);
const number = (value, digits = 3) => value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits)));
const ms = value => value === null || value === undefined ? "–" : value >= 1000 ? number(value / 1000) + " s" : number(value < 1 ? Number(value.toFixed(3)) : value) + " ms";
const text = value => typeof value === "object" ? JSON.stringify(value) : String(value);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const clock = value => new Date(value).toISOString().slice(11, 23);
const day = (value, length = 19) => new Date(value).toISOString().slice(0, length).replace("T", " ") + " UTC";
const to = (view, parameters = {}) => {
  const query = new URLSearchParams(Object.entries(parameters).filter(pair => pair[1])).toString();
  return "#/" + view + (query ? "?" + query : "");
};
const eventLink = row => to("event", {key: row.key});
const subject = row => [row.pod, row.container].filter(Boolean).join("/") || "–";
// 1, 2 or 5 with zeros, at or above a value: the ends of scales.
const nice = value => { const power = 10 ** Math.floor(Math.log10(value)); return power * [1, 2, 5, 10].find(digit => digit * power >= value * 0.999); };

// Each plugin has its colour in all views: by its place in the chain, and later plugins after it.
function colour(plugin) {
  if (plugin === "(request)") return "";
  if (!colours.has(plugin)) colours.set(plugin, colours.size);
  const place = colours.get(plugin);
  return `c${place % COLOURS}${place < COLOURS ? "" : " again"}`;
}
const dot = plugin => h("span", {class: "dot " + colour(plugin), "aria-hidden": "true"});
const named = plugin => plugin === "(request)" ? "the runtime's request" : [dot(plugin), plugin];

const PROBLEMS = {failed: row => row.error, missed: row => row.steps.some(step => step.missed), refused: row => row.steps.some(step => step.refused),
  conflict: row => row.steps.some(step => step.conflict), problem: row => row.error || row.steps.some(step => step.error || step.refused)};
PROBLEMS.ok = row => !PROBLEMS.problem(row);

function local(path, asked) {
  if (path === "overview") return DATA.overview;
  if (path === "containers") return DATA.containers;
  if (path === "container") return Object.hasOwn(DATA.chains, asked.id) ? DATA.chains[asked.id] : null;
  if (path === "event") return DATA.events.find(row => row.key === asked.key) || null;
  if (path === "view") {
    const view = DATA.views[asked.of ? asked.name + "/" + asked.of : asked.name] || null;
    if (view && view.unanswered) throw Object.assign(new Error(view.unanswered), {status: 503});
    return view;
  }
  const until = Number(asked.from) / 1e6;
  const rows = DATA.events.filter(row => contains(row, asked.q) && (!asked.from || row.time_ms <= until)
    && (!asked.event || row.event === asked.event) && (!asked.plugin || row.steps.some(step => step.plugin === asked.plugin))
    && (!asked.outcome || (PROBLEMS[asked.outcome] || (() => false))(row)) && row.duration_ms >= Number(asked.min || 0));
  return {rows, next: "", more: false, looked_at: DATA.events.length};
}

// A search looks at values, and not at the names of the fields.
const values = value => value === null ? "" : typeof value === "object" ? Object.values(value).map(values).join("\n") : String(value);
const contains = (row, wanted) => values(row).toLowerCase().includes((wanted || "").toLowerCase());

async function ask(path, asked = {}) {
  if (DATA) return local(path, asked);
  const query = new URLSearchParams(Object.entries(asked).filter(pair => pair[1]));
  const answer = await fetch("/api/" + path + "?" + query, {headers: {Authorization: "Bearer " + token}});
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), {status: answer.status});
  return answer.json();
}

// A column is [title, cell, class, left out if all its cells are empty, value to sort by].
function table(name, all, rows, attributes) {
  const columns = all.filter(([, cell, , optional]) => !optional || rows.some(row => cell(row)));
  const {title, down} = sorts[name] || {}, value = columns.find(column => column[0] === title)?.[4];
  const order = value ? rows.slice().sort((one, other) => (down ? -1 : 1) * compare(value(one), value(other))) : rows;
  const sort = (title, at) => {
    sorts[name] = {title, down: sorts[name]?.title === title ? !sorts[name].down : typeof value_of(at) === "number"};
    const fresh = table(name, all, rows, attributes);
    box.replaceWith(fresh);
    fresh.querySelectorAll("th")[at].querySelector("button").focus();
  };
  const value_of = at => rows.length ? columns[at][4](rows[0]) : "";
  const head = columns.map(([title_, , kind, , sortable], at) => {
    const button = sortable ? h("button", {type: "button"}, title_) : title_;
    if (sortable) button.addEventListener("click", () => sort(title_, at));
    return h("th", {class: kind, scope: "col", "aria-sort": title_ === title ? down ? "descending" : "ascending" : ""}, button);
  });
  const body = order.map(row => h("tr", null, columns.map(([title, cell, kind]) => h("td", {class: kind, "data-of": title}, cell(row)))));
  const box = h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table " + name},
    h("table", {class: "cards", ...attributes}, h("thead", null, h("tr", null, head)), h("tbody", null, body)));
  return box;
}
const compare = (one, other) => typeof one === "string" ? one.localeCompare(other) : (one ?? -1) - (other ?? -1);
const tile = (name, value, tone) => h("div", {class: "tile"}, h("b", {class: tone}, value), h("span", null, name));
const TONES = {active: "good", late: "warn", open: "bad", gone: "bad", "crash loop": "bad", "not launched": "bad", starting: "warn"};
const counted = (value, tone) => h("span", {class: value ? tone : "soft zero"}, String(value));

function outcome(row) {
  if (row.error) return h("span", {class: "bad"}, row.error);
  const wrong = row.steps.filter(step => step.error || step.refused);
  if (!wrong.length) return h("span", {class: "soft"}, row.whole === false ? "incomplete" : "ok");
  return h("span", {class: "warn"}, wrong.map(step => step.plugin + ": " + (step.error || step.refused)).join("; "));
}
function track(steps, scale, duration) {
  const bars = steps.filter(step => step.at_ms < scale).map(step => {
    const bar = h("i", {class: colour(step.plugin) + (step.error ? " bad" : step.refused ? " warn" : ""), title: step.plugin + " " + ms(step.duration_ms)});
    bar.style.left = 100 * step.at_ms / scale + "%";
    bar.style.width = Math.min(100 - 100 * step.at_ms / scale, 100 * (step.duration_ms || 0) / scale) + "%";
    return bar;
  });
  return h("div", {class: "track" + (duration > scale * 1.001 ? " cut" : "")}, bars);
}
const whole = row => Math.max(row.duration_ms, 1e-6, ...row.steps.map(step => step.at_ms + (step.duration_ms || 0)));

// The colours of plugins. A click hides a plugin's lines in charts, or filters the events by a plugin.
function legend(plugins, redraw, asked) {
  return h("div", {class: "legend", role: "group", "aria-label": "Plugins"}, plugins.slice(0, 48).map(plugin => {
    if (!redraw) return link(to("events", {...asked, from: "", plugin: asked.plugin === plugin ? "" : plugin}), named(plugin), {class: colour(plugin), "aria-current": asked.plugin === plugin ? "true" : ""});
    const button = h("button", {type: "button", id: "legend-" + plugin, class: colour(plugin), "aria-pressed": String(!hidden.has(plugin))}, dot(plugin), plugin);
    button.addEventListener("click", () => { hidden.has(plugin) ? hidden.delete(plugin) : hidden.add(plugin); redraw(); });
    return button;
  }), plugins.length > 48 ? h("span", null, `${plugins.length - 48} more`) : "");
}

// A line for each plugin over time. `value` returns a plugin's number in an interval, null for a gap.
function chart(title, value, unit) {
  const {begin_ms, interval_ms, plugins} = overview.series, WIDTH = 380, HIGH = 130;
  const all = Object.entries(plugins), size = (all[0]?.[1].calls.length || 1) - (overview.mode === "live" ? 1 : 0);
  const first = Math.max(0, Array.from({length: size}, (_, at) => all.some(([, row]) => row.calls[at])).indexOf(true));
  const begin = Math.max(0, Math.min(first, size - 12));
  const lines = all.filter(([plugin]) => !hidden.has(plugin)).map(([plugin, row]) => [plugin, row.calls.map((_, at) => at < first || at >= size ? null : value(row, at))]);
  const top = nice(Math.max(...lines.flatMap(([, values]) => values), 1e-3));
  const x = at => size - 1 > begin ? WIDTH * (at - begin) / (size - 1 - begin) : WIDTH / 2, y = value => 16 + HIGH * (1 - value / top);
  const label = (left, up, anchor, words) => drawing("text", {x: left, y: up, "text-anchor": anchor}, words);
  const time = at => clock(begin_ms + at * interval_ms).slice(0, 8);
  const svg = drawing("svg", {viewBox: `0 0 ${WIDTH} ${HIGH + 36}`, role: "img", "aria-label": `${title} of each plugin over time, at most ${number(top)} ${unit}`},
    ...[0, 0.5, 1].map(part => drawing("line", {x1: 0, x2: WIDTH, y1: y(part * top), y2: y(part * top)})),
    ...lines.map(([plugin, values]) => drawing("path", {class: colour(plugin), d: values.map((value, at) => value === null ? "" :
      (values[at - 1] ?? null) === null ? `M${x(at).toFixed(1)} ${y(value).toFixed(1)}h0` : `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("")})),
    ...[0.5, 1].map(part => label(0, y(part * top) - 3, "start", number(part * top) + " " + unit)),
    label(0, HIGH + 32, "start", time(begin)), label(WIDTH / 2, HIGH + 32, "middle", time((begin + size - 1) / 2)), label(WIDTH, HIGH + 32, "end", time(size - 1)));
  const figure = h("figure", {class: "chart opens"}, h("figcaption", null, title), svg);
  const line = drawing("line", {class: "at", y1: y(top), y2: y(0)});
  const point = at => {
    figure.querySelector(".tip")?.remove();
    line.remove();
    if (at === null) return;
    line.setAttribute("x1", x(at)); line.setAttribute("x2", x(at));
    svg.append(line);
    const values = lines.map(([plugin, values]) => [plugin, values[at] ?? null]).filter(pair => pair[1] !== null).sort((one, other) => other[1] - one[1]);
    const tip = h("div", {class: "tip"}, h("div", {class: "soft"}, time(at)), values.slice(0, 8).map(([plugin, value]) => h("div", null, dot(plugin), `${plugin} ${number(value)} ${unit}`)),
      values.length > 8 ? h("div", {class: "soft"}, `${values.length - 8} more`) : "");
    tip.style[x(at) > WIDTH / 2 ? "left" : "right"] = "8px";
    figure.append(tip);
  };
  const at = event => { const box = svg.getBoundingClientRect(); return Math.max(begin, Math.min(size - 1, Math.round(begin + (size - 1 - begin) * (event.clientX - box.left) / box.width))); };
  svg.addEventListener("pointermove", event => { hover = {title, at: at(event)}; point(hover.at); });
  svg.addEventListener("pointerleave", () => { hover = null; point(null); });
  svg.addEventListener("click", event => { location.hash = to("events", {from: String(Math.round((begin_ms + (at(event) + 1) * interval_ms) * 1e6))}); });
  if (hover?.title === title && hover.at < size) point(hover.at);
  return figure;
}
function charts() {
  const {plugins, interval_ms, left_out} = overview.series, made = h("div", null);
  const names = overview.plugins.map(row => row.plugin).filter(plugin => Object.hasOwn(plugins, plugin));
  const redraw = () => { const pending = document.activeElement.id; made.replaceChildren(legend(names, redraw), h("div", {class: "charts"},
    chart("Calls per second", (row, at) => row.calls[at] / interval_ms * 1e3, "/s"), chart("p50 of a call", (row, at) => row.p50_ms[at], "ms"), chart("p99 of a call", (row, at) => row.p99_ms[at], "ms")),
    left_out ? h("p", {class: "warn"}, `${plural(left_out, "call")} of further plugins are not in the charts.`) : ""); if (pending) $(pending)?.focus(); };
  redraw();
  return names.length ? [h("h2", null, "Plugins over time"), made] : [];
}

const SORTS = {"": ["Newest first"], old: ["Oldest first", row => row.time_ms], slow: ["Slowest first", row => -row.duration_ms], fast: ["Fastest first", row => row.duration_ms],
  event: ["By event", row => row.event], subject: ["By pod", subject], outcome: ["Problems first", row => row.error ? 0 : PROBLEMS.problem(row) ? 1 : 2]};
function chips(asked) {
  const chip = (label, name, options) => {
    const select = h("select", {id: "chip-" + name}, options.map(([value, title]) => { const option = h("option", null, title); option.value = value; return option; }));
    if (asked[name] && !options.some(([value]) => value === asked[name])) { const option = h("option", null, asked[name]); option.value = asked[name]; select.append(option); }
    select.value = asked[name] || "";
    select.addEventListener("change", () => { location.hash = to("events", {...asked, [name]: select.value}); });
    return h("span", {class: "chip" + (asked[name] ? " on" : "")}, h("label", {for: "chip-" + name}, label), select);
  };
  const {events, outcomes} = overview.choices, any = [["", "any"]];
  const clear = ["q", "plugin", "event", "outcome", "min", "from"].some(name => asked[name]);
  return h("div", {class: "chips"},
    chip("Plugin", "plugin", [...any, ...overview.plugins.map(row => [row.plugin, row.plugin])]), chip("Event", "event", [...any, ...events.map(name => [name, name])]),
    chip("Outcome", "outcome", [...any, ...outcomes.map(name => [name, name === "problem" ? "any problem" : name])]),
    chip("Took", "min", [...any, ...[1, 10, 100, 1000].map(least => [String(least), `${least} ms or more`])]),
    chip("Order", "sort", Object.entries(SORTS).map(([name, [title]]) => [name, title])),
    asked.q ? h("span", {class: "chip on"}, h("label", null, `contains “${asked.q}”`), link(to("events", {...asked, q: ""}), "×", {"aria-label": "Remove the text", class: "chip-x"})) : "",
    asked.from ? h("span", {class: "chip on"}, h("label", null, "until " + (asked.from.includes(".") ? "an older page" : day(Number(asked.from) / 1e6))), link(to("events", {...asked, from: ""}), "×", {"aria-label": "Show the newest events", class: "chip-x"})) : "",
    clear ? link(to("events", {sort: asked.sort}), "Clear all") : "");
}

// The rows of many events. Only the visible rows are in the document.
class List {
  constructor(found, asked, live) {
    Object.assign(this, {asked, live, rows: found.rows, last: found.last || "0", at: -1, loading: false, plotted: 0, order: SORTS[asked.sort] ? SORTS[asked.sort][1] : null});
    this.pager = h("div", {class: "pager"});
    this.body = h("tbody");
    this.plot = h("figure", {class: "chart opens"});
    this.scale = h("span");
    const sorted = (title, name, again) => {
      const button = h("button", {type: "button"}, title);
      button.addEventListener("click", () => { location.hash = to("events", {...asked, sort: (asked.sort || "") === name ? again : name}); });
      return button;
    };
    const direction = {"": ["descending"], old: ["ascending"], slow: ["", "", "", "descending"], fast: ["", "", "", "ascending"], event: ["", "ascending"], subject: ["", "", "ascending"], outcome: ["", "", "", "", "", "ascending"]}[asked.sort || ""] || [];
    this.columns = [
      [sorted(["Time", h("span", {class: "extra"}, " (UTC)")], "", "old"), row => link(eventLink(row), clock(row.time_ms), {"data-row": "1", title: day(row.time_ms)}), "w1 time"],
      [sorted("Event", "event", ""), row => row.event, "w2"],
      [sorted("Pod/container", "subject", ""), row => row.container_id ? link(to("container", {id: row.container_id}), subject(row), {tabindex: "-1", title: subject(row)}) : subject(row), "text"],
      [sorted("Took", "slow", "fast"), row => ms(row.duration_ms), "w3 num"],
      [["Plugins ", this.scale], row => track(row.steps, this.scale_ms, whole(row)), "w4 extra"],
      [sorted("Outcome", "outcome", ""), row => { const cell = outcome(row); cell.title = cell.textContent; return cell; }, "text"]];
    const head = h("tr", null, this.columns.map(([title, , kind], at) => h("th", {class: kind, scope: "col", "aria-sort": direction[at]}, title)));
    this.table = h("table", null, h("thead", null, head), this.body);
    this.box = h("div", {class: "scroll list", tabindex: "0", role: "region", "aria-label": "Events"}, this.table);
    this.box.addEventListener("scroll", () => this.soon());
    this.box.addEventListener("pointerdown", () => { this.at = -1; });
    this.plot.addEventListener("click", event => this.open(event));
    this.page(found);
  }
  get high() { return NARROW.matches ? 60 : 32; }
  page(found) { this.more = found.more; this.next = found.next; this.changed(); if (this.order && this.more && this.rows.length < MAX_ROWS) setTimeout(() => this.load()); }
  // Sort, choose the common scale of all rows, and draw.
  changed() {
    this.shown = this.order ? this.rows.slice().sort((one, other) => compare(this.order(one), this.order(other))) : this.rows;
    const times = this.rows.map(whole).sort((one, other) => one - other);
    this.scale_ms = nice(times[Math.floor(times.length * 0.95)] || 1);
    this.scale.textContent = `(0 to ${ms(this.scale_ms)})`;
    this.say();
    this.soon();
  }
  say() {
    const {rows, live, more} = this;
    const shown = rows.length ? `${plural(rows.length, "event")} shown` : more ? "Nothing so far" : live ? "No event since this page was opened" : "No event";
    const order = this.order && more ? ", sorted among these" : live && rows.length && !this.order ? ", the newest first" : "";
    this.pager.replaceChildren(h("span", {class: "soft"}, shown + order + (tooFast ? `; ${tooFast} came too fast to be shown` : "")),
      more ? link(to("events", {...this.asked, from: this.next}), "older events", {"data-next": "1"}) : "");
  }
  soon() { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }
  draw() {
    const {box, shown: rows, high} = this;
    const begin = Math.max(0, Math.min(Math.floor(box.scrollTop / high) - 8, rows.length - 1));
    const end = Math.min(rows.length, begin + Math.ceil(box.clientHeight / high) + 24);
    const lost = document.activeElement === document.body && rows[this.at];  // its row was out of sight for a moment
    const pending = this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : lost ? eventLink(lost) : null;
    const gap = height => {
      const cell = h("td");
      cell.style.height = height + "px";
      return h("tr", {class: "gap", "aria-hidden": "true"}, cell);
    };
    const made = rows.slice(begin, end).map((row, at) => h("tr", {"aria-rowindex": String(begin + at + 2)},
      this.columns.map(([, cell, kind]) => h("td", {class: kind}, cell(row)))));
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.body.replaceChildren(gap(begin * high), ...made, gap((rows.length - end) * high));
    if (pending) [...this.body.querySelectorAll("a")].find(row => row.getAttribute("href") === pending)?.focus({preventScroll: true});
    if (performance.now() - this.plotted > 500) this.draw_plot();
    else if (this.plotted_rows !== this.rows.length && !this.later) this.later = setTimeout(() => { this.later = 0; this.soon(); }, 500);
    if (this.more && !this.live && end === rows.length && rows.length < MAX_ROWS) this.load();
  }
  // All events as points: when they began, and how long they took, in the colour of the plugin that took longest.
  draw_plot() {
    this.plotted = performance.now();
    this.plotted_rows = this.rows.length;
    const {rows, plot} = this, HIGH = 90, width = Math.max(280, plot.clientWidth - 22);
    this.points = [];
    if (rows.length < 2) { plot.hidden = true; return; }
    plot.hidden = false;
    const times = rows.map(row => row.time_ms), begin = Math.min(...times), end = Math.max(...times, begin + 1);
    const low = Math.floor(Math.log10(Math.max(0.01, Math.min(...rows.map(row => row.duration_ms))))), top = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...rows.map(row => row.duration_ms), 0.1))));
    const y = duration => 12 + HIGH * (1 - (Math.log10(Math.max(duration, 10 ** low)) - low) / (top - low));
    const paths = new Map(), seen = new Set();
    for (const row of rows) {
      const left = Math.round(5 + (width - 10) * (row.time_ms - begin) / (end - begin)), up = Math.round(y(row.duration_ms));
      const longest = row.steps.reduce((longest, step) => (step.duration_ms || 0) > (longest?.duration_ms || 0) ? step : longest, null);
      const kind = row.error ? "wrong" : "points " + (longest ? colour(longest.plugin).replace(" again", "") : "");
      this.points.push([left, up, row]);
      const place = `${left} ${up} ${kind}`;
      if (seen.has(place)) continue;
      seen.add(place);
      paths.set(kind, (paths.get(kind) || "") + (row.error ? `M${left - 3} ${up - 3}l6 6m-6 0l6 -6` : `M${left} ${up}h0`));
    }
    const label = (left, up, anchor, words) => drawing("text", {x: left, y: up, "text-anchor": anchor}, words);
    const steps = Array.from({length: top - low + 1}, (_, at) => low + at).filter(power => top - low < 4 || (power - low) % 2 === 0);
    plot.replaceChildren(drawing("svg", {viewBox: `0 0 ${width} ${HIGH + 32}`, role: "img", "aria-label": "When the events began, and how long each took"},
      ...steps.map(power => drawing("line", {x1: 0, x2: width, y1: y(10 ** power), y2: y(10 ** power)})),
      ...[...paths].sort(([kind]) => kind === "wrong" ? 1 : -1).map(([kind, d]) => drawing("path", {class: kind, d})),
      ...steps.map(power => label(0, y(10 ** power) - 2, "start", ms(10 ** power))),
      label(0, HIGH + 29, "start", clock(begin).slice(0, 8)), label(width / 2, HIGH + 29, "middle", clock((begin + end) / 2).slice(0, 8)), label(width, HIGH + 29, "end", clock(end).slice(0, 8))));
  }
  open(event) {
    const box = this.plot.querySelector("svg").getBoundingClientRect(), left = event.clientX - box.left, up = event.clientY - box.top;
    const near = this.points.map(([x, y, row]) => [Math.hypot(x - left, y - up), row]).reduce((near, pair) => pair[0] < near[0] ? pair : near, [16, null]);
    if (near[1]) location.hash = eventLink(near[1]);
  }
  async load() {
    if (this.loading || !this.more || list !== this) return;
    this.loading = true;
    try {
      const found = await ask("events", {...this.asked, from: this.next, most: 500});
      this.rows.push(...found.rows);
      this.loading = false;
      this.page(found);
    } catch (error) { say(error.message, true); this.loading = false; }
  }
  add(rows) {
    if (!rows.length) return;
    this.rows.unshift(...rows.reverse());
    this.rows.length = Math.min(this.rows.length, MAX_ROWS);
    if (!this.order && (this.box.scrollTop > 0 || this.at >= 0)) {
      const gap = this.body.lastChild?.firstChild;  // grows first, because the browser limits scrollTop to the present height
      if (gap) gap.style.height = parseFloat(gap.style.height) + rows.length * this.high + "px";
      this.box.scrollTop += rows.length * this.high;
    }
    if (!this.order && this.at >= 0) this.at += rows.length;
    this.changed();
  }
  move(by) {
    const {high} = this, shown = [...this.body.querySelectorAll("[data-row]")];
    if (!shown.includes(document.activeElement)) this.at = by > 0 ? Math.ceil(this.box.scrollTop / high) - 1 : Math.floor(this.box.scrollTop / high) + 1;
    this.at = Math.max(0, Math.min(this.at + by, this.shown.length - 1));
    const top = this.at * high, room = this.box.clientHeight - 2 * high;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
    this.draw();
    const row = this.shown[this.at];
    if (row) [...this.body.querySelectorAll("[data-row]")].find(link => link.getAttribute("href") === eventLink(row))?.focus({preventScroll: true});
  }
}

const value = it => it === null || it === undefined ? h("span", {class: "soft"}, "unset") : h("code", null, JSON.stringify(it));
const field = row => row.field + (row.key ? " " + row.key : "");
const stamp = time => h("span", {title: time.replace("T", " ")}, time.slice(11).replace("Z", ""));

const VIEWS = {
  async ""() {
    const it = overview, live = it.mode === "live", runtime = it.runtime || {};
    const time = it.first_ms ? `${day(it.first_ms)} to ${day(it.last_ms)}` : `the last ${Math.round(it.seconds)} s`;
    const about = [[runtime.name, runtime.version].filter(Boolean).join(" "), runtime.protocol && "NRI " + runtime.protocol.replace(/^v/, ""), it.title, time];
    const made = [h("h1", null, live ? "This node, now" : it.mode === "snapshot" ? "A snapshot" : "A recording"), h("p", {class: "soft"}, about.filter(Boolean).join(" · "))];
    if (it.done === false) made.push(h("p", {class: "warn"}, `Still being read: ${it.events} events so far; figures and containers grow.`));
    if (it.unread) made.push(h("p", {class: "warn"}, `${it.unread} events came too fast to be shown or counted.`));
    for (const line of it.problems || []) made.push(h("p", {class: "bad"}, line));
    const sum = name => it.plugins.reduce((all, row) => all + row[name], 0);
    made.push(h("div", {class: "tiles"}, tile("events a second", number(it.events_per_s)), tile("events", String(it.events)),
      tile("failed", String(it.failed), it.failed ? "bad" : ""), tile("p50 of an event", ms(it.p50_ms)), tile("p99 of an event", ms(it.p99_ms)),
      tile("missed answers", String(sum("missed")), sum("missed") ? "bad" : ""), tile("conflicts", String(sum("conflicts")), sum("conflicts") ? "warn" : "")));
    made.push(...charts());
    made.push(h("h2", null, "Plugins, in the order of the chain"), it.plugins.length ? table("plugins", [
      ["Plugin", row => link(to("events", {plugin: row.plugin}), named(row.plugin)), "name", false, row => row.plugin],
      ["State", row => row.state ? h("span", {class: TONES[row.state]}, row.state) : "", "", true, row => row.state],
      ["Calls", row => String(row.calls), "num", false, row => row.calls],
      ["p50", row => ms(row.p50_ms), "num", false, row => row.p50_ms ?? -1],
      ["p99", row => ms(row.p99_ms), "num", false, row => row.p99_ms ?? -1],
      ["Missed", row => counted(row.missed, "bad"), "num", false, row => row.missed],
      ["Errors", row => counted(row.errors, "bad"), "num", false, row => row.errors],
      ["Refused", row => counted(row.refused, "warn"), "num", false, row => row.refused],
      ["Conflicts", row => counted(row.conflicts, "warn"), "num", false, row => row.conflicts],
      ["Events", row => some(row.events || ""), "extra", true],
      ["Last error", row => row.last_error, "text extra", true],
    ], it.plugins) : h("p", {class: "soft"}, "No plugin is connected."));
    if (it.notes && it.notes.length) made.push(h("h2", null, "Changes of plugins, the newest first"), table("notes", [
      ["Time (UTC)", row => clock(row.time_ms), "time"], ["Plugin", row => row.plugin ? named(row.plugin) : "–", "name"],
      ["State", row => h("span", {class: TONES[row.state]}, row.state)], ["Why", row => row.text, "text", true],
    ], it.notes.slice(-30).reverse()));
    if (it.about) made.push(h("h2", null, "Recorded with"), h("dl", null, Object.entries(it.about).flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)])));
    return made;
  },
  async events(asked) {
    const live = overview.mode === "live" && !asked.from;
    const found = await ask("events", {...asked, most: live ? MAX_ROWS : 500});
    list = new List(found, asked, live);
    return [h("h1", null, "Events"), overview.done === false ? h("p", {class: "warn"}, "Still being read: the newest events follow.") : "", chips(asked), legend(overview.plugins.map(row => row.plugin), null, asked), list.plot, list.pager, list.box];
  },
  async event(asked) {
    const row = await ask("event", asked);
    if (!row) return [h("h1", null, "Event"), h("p", null, overview.mode === "live" ? "This event is no longer in memory." : "Not found.")];
    const made = [h("h1", null, row.event + " of " + subject(row)), h("dl", null,
      h("dt", null, "Time"), h("dd", null, day(row.time_ms, 23)), h("dt", null, "Took"), h("dd", null, ms(row.duration_ms)),
      h("dt", null, "Pod"), h("dd", null, [row.pod, row.pod_id].filter(Boolean).join(" · ") || "–"),
      row.container_id ? [h("dt", null, "Container"), h("dd", null, link(to("container", {id: row.container_id}), row.container || row.container_id), " · ", row.container_id)] : [],
      h("dt", null, "Outcome"), h("dd", null, outcome(row)))];
    if (row.redacted) made.push(h("p", {class: "soft"}, "Values were replaced when this was recorded; names stayed."));
    made.push(h("h2", null, "Waterfall"), row.steps.length ? table("steps", [
      ["Plugin", step => link(to("events", {plugin: step.plugin}), named(step.plugin)), "name"],
      ["0 to " + ms(whole(row)), step => track([step], whole(row), 0), "bar"],
      ["Asked at", step => ms(step.at_ms), "num extra", false, step => step.at_ms],
      ["Took", step => ms(step.duration_ms), "num", false, step => step.duration_ms ?? -1],
      ["Outcome", step => step.error ? h("span", {class: "bad"}, (step.missed ? "missed: " : "") + step.error)
        : step.refused ? h("span", {class: "warn"}, (step.conflict ? "conflict: " : "refused: ") + step.refused) : h("span", {class: "soft"}, step.event === row.event ? "ok" : "agrees"), "text"],
    ], row.steps, {class: "cards waterfall"}) : h("p", {class: "soft"}, "No plugin was called."));
    if (row.more_steps) made.push(h("p", {class: "warn"}, `${row.more_steps} more steps are not shown.`));
    for (const step of row.steps) if (step.reply && Object.keys(step.reply).length)
      made.push(h("h2", null, "Answer of " + step.plugin), h("pre", {tabindex: "0"}, JSON.stringify(step.reply, null, 2)));
    if (row.request) made.push(h("h2", null, "Request"), h("pre", {tabindex: "0"}, JSON.stringify(row.request, null, 2)));
    return made;
  },
  async containers() {
    const found = await ask("containers"), rows = found.containers;
    return [h("h1", null, "Containers"), h("p", {class: "soft"}, `${rows.length} with a history, the newest first`
      + (found.left_out ? `; ${found.left_out} more are not shown` : "")), rows.length ? table("containers", [
      ["Container", row => link(to("container", {id: row.id}), row.name || "(name not known)", {"data-row": "1"}), "text", false, row => row.name],
      ["Pod", row => row.pod || "–", "text", false, row => row.pod], ["Id", row => h("code", null, row.id.slice(0, 13))],
      ["State", row => row.runs ? h("span", {class: "good"}, "present") : row.runs === false ? h("span", {class: "soft"}, "ended") : "", "", true, row => String(row.runs)],
    ], rows.slice(0, 1000)) : h("p", {class: "soft"}, "None.")];
  },
  async container(asked) {
    const chain = await ask("container", asked);
    if (!chain) return [h("h1", null, "Container"), h("p", null, "This container has no history.")];
    const {image = {}, values = []} = chain, own = values.filter(row => row.plugin === "(request)"), set = values.filter(row => row.plugin !== "(request)");
    const made = [h("h1", null, (chain.name || chain.container.slice(0, 13)) + (chain.pod ? " of " + chain.pod : "")), h("dl", null,
      h("dt", null, "State"), h("dd", null, h("span", {class: {running: "good", "not created": "bad"}[chain.state]}, chain.state || "not known")),
      chain.refused ? [] : [h("dt", null, "Image"), h("dd", null, [image.name, image.digest].filter(Boolean).join(" · ") || "the runtime does not report it")],
      h("dt", null, "Id"), h("dd", null, h("code", null, chain.container), " · ", link(to("events", {q: chain.container}), "its events")))];
    if (chain.forgotten) made.push(h("p", {class: "warn"}, `${chain.forgotten} older changes are no longer remembered.`));
    if (chain.refused) made.push(h("p", {class: "bad"}, `Not created: ${chain.refused.reason} `, h("span", {class: "soft"}, chain.refused.time)));
    const columns = [["Field", field, "text", false, field], ["Value", row => value(row.value), "text"], ["Set by", row => named(row.plugin), "name", false, row => row.plugin], ["Since (UTC)", row => row.time ? stamp(row.time) : "", "time", true, row => row.time]];
    if (!chain.refused) made.push(h("h2", null, "Values in force that plugins set"), set.length ? table("set", columns, set) : h("p", {class: "soft"}, "None."));
    if (!chain.refused && own.length) made.push(h("details", null, h("summary", null, plural(own.length, "value") + " as the runtime requested"), table("own", columns.slice(0, 2), own)));
    if (chain.values_left_out) made.push(h("p", {class: "warn"}, `${plural(chain.values_left_out, "further value")} not shown.`));
    made.push(h("h2", null, "Changes, the newest first"), chain.steps.length ? table("changes", [
      ["Time (UTC)", step => stamp(step.time), "time", false, step => step.time], ["Event", step => step.event, "extra"], ["Plugin", step => named(step.plugin), "name", false, step => step.plugin],
      ["Field", field, "text", false, field], ["Before", step => value(step.before), "text"],
      ["After", step => value(step.after), "text"], ["Note", step => step.note, "text extra", true],
    ], chain.steps.slice().reverse()) : h("p", {class: "soft"}, "No plugin changed anything."));
    if (chain.notes.length) made.push(h("h2", null, "Refusals, missing answers, and values that were not applied"), table("refusals", [["Time (UTC)", note => stamp(note.time), "time"], ["What", note => note.text, "text"]], chain.notes.slice().reverse()));
    return made;
  },
  async drift() {
    const noDrift = it => {
      const rest = it.unread + it.left_out;
      if (!it.looked_at) return h("p", {class: rest ? "warn" : "soft"}, rest ? "Nothing was compared: no value could be read. Run nri inspect on the node, as root." : "Nothing was compared: no value was applied to a running container.");
      return rest ? h("p", {class: "warn"}, "No differences in the compared values; " + rest + " were not compared.") : h("p", {class: "good"}, "No differences.");
    };
    const it = await ask("view", {name: "drift"});
    if (!it) return [h("h1", null, "Drift"), h("p", null, "A recording has no cgroups.")];
    const columns = [["Of", row => link(to("search", {q: row.subject}), row.subject, {"data-row": "1"}), "text", false, row => row.subject], ["Cgroup file", row => row.knob, "name", false, row => row.knob],
      ["Wanted", row => text(row.wanted), "text"], ["Set by", row => named(row.set_by), "name", false, row => row.set_by], ["Found", row => row.found === null ? h("span", {class: "good"}, "back") : h("span", {class: "bad"}, text(row.found)), "text"],
      ["Overwritten by", row => row.found === null ? "" : row.by === "not known" ? "a program without NRI" : row.by, "text", true], ["Before", row => row.before === null ? "" : text(row.before), "text extra", true], ["When (UTC)", row => h("span", {title: row.when}, row.when), "time", false, row => row.when]];
    const made = [h("h1", null, "Drift"), h("p", {class: "soft"}, `${plural(it.looked_at, "value")} of cgroups compared with the values of the runtime, plugins and the agent`
      + (it.unread ? `; ${it.unread} could not be read` : "") + (it.left_out ? `; ${it.left_out} above the limit` : ""))];
    made.push(h("h2", null, "Differences now"), it.now.length ? table("now", columns, it.now) : noDrift(it));
    if (it.more) made.push(h("p", {class: "warn"}, `${it.more} more are not shown.`));
    if (it.changes.length) made.push(h("h2", null, "Changes since the page was opened, the newest first"), table("since", columns, it.changes));
    return made;
  },
  async agent(asked) {
    const it = await ask("view", {name: "agent", of: asked.pod});
    if (!it) return [h("h1", null, "Agent"), h("p", null, asked.pod ? "The agent has no data about this pod." : "No node agent runs here.")];
    const name = row => [row.namespace, row.name].filter(Boolean).join("/") || row.key;
    if (it.pods) return [h("h1", null, "Agent"), h("p", {class: "soft"}, `${plural(it.pods.length, "pod or part")} of the node with decisions, the newest first`), it.pods.length ? table("pods", [
      ["Pod", row => link(to("agent", {pod: row.key}), name(row), {"data-row": "1"}), "text", false, name],
      ["Key", row => h("code", null, row.key), "text"], ["State", row => row.ended ? h("span", {class: "soft"}, "ended") : h("span", {class: "good"}, "running"), "", false, row => String(row.ended)]], it.pods.slice().reverse()) : h("p", {class: "soft"}, "None.")];
    const newest = rows => rows.slice().sort((one, other) => other.at - one.at), of = ["Of", row => row.container || "the pod", "text", false, row => row.container], time = ["Time (UTC)", row => clock(row.at * 1000), "time", false, row => row.at];
    const made = [h("h1", null, name(it)), h("p", {class: "soft"}, h("code", null, it.key), it.of ? " · " + it.of : "")];
    if (it.values.length) made.push(h("h2", null, "Values"), table("agent values", [of, ["Field", row => row.field, "text", false, row => row.field], ["Value", row => h("code", null, row.value), "text"],
      ["Why", row => row.hook + ": " + row.reason, "text"], ["By", row => row.stage + ", " + row.transport, "text extra"], time], newest(it.values)));
    if (it.writes.length) made.push(h("h2", null, "Writes"), table("writes", [of, ["File", row => row.target + " " + row.name, "text"], ["Value", row => h("code", null, row.wanted), "text"],
      ["Outcome", row => h("span", {class: ["applied", "unchanged"].includes(row.outcome) ? "good" : "bad"}, [row.outcome, row.reason].filter(Boolean).join(": ")), "text", false, row => row.outcome], time], newest(it.writes)));
    if (it.errors.length) made.push(h("h2", null, "Errors"), table("errors", [of, ["Hook", row => row.hook, "name"], ["Why", row => h("span", {class: "bad"}, row.reason), "text"]], newest(it.errors)));
    for (const note of it.notes) made.push(h("p", {class: "warn"}, note));
    return made;
  },
  async placement() {
    const it = await ask("view", {name: "placement"});
    if (!it) return [h("h1", null, "CPUs"), h("p", null, "No placement plugin runs here.")];
    const groups = [...new Set(Object.values(it.users).map(String))];
    const hue = names => `hsl(${Math.round(groups.indexOf(String(names)) * 137.5 % 360)} 70% 66%)`;
    const cpu = number => {
      const names = it.users[number];
      const made = h("span", {class: names ? "cpu used" : "cpu", title: names ? names.join(", ") : "free"}, String(number));
      if (names) made.style.background = hue(names);
      return made;
    };
    const gib = bytes => number(bytes / 2 ** 30) + " GiB";
    const box = (title, inner) => h("div", {class: "box"}, title ? h("div", {class: "soft"}, title) : "", inner);
    const node = node => box(`node ${node.number}, ${gib(node.memory_bytes)} ${node.kind}`, (node.caches || []).map(cores => box("", cores.map(core => box("", core.map(cpu))))));
    const rows = Object.entries(it.users).reduce((rows, [number, names]) => rows.set(String(names), [...(rows.get(String(names)) || []), number]), new Map());
    return [h("h1", null, "CPUs by " + it.policy), h("div", {role: "region", tabindex: "0", class: "scroll", "aria-label": "Map of CPUs"}, it.machine.packages.map(each => box("package " + each.number, each.nodes.map(node))), it.machine.memory_only.map(node)),
      h("h2", null, "Containers by CPU"), rows.size ? table("cpus", [["CPUs", ([, numbers]) => numbers.map(cpu), "text"], ["Containers", ([names]) => names.replaceAll(",", ", "), "text"]], [...rows]) : h("p", {class: "soft"}, "No container is placed."),
      h("h2", null, "Places"), table("places", [["Place", row => "\u2003".repeat(row.depth) + row.name, "name"], ["CPUs", row => row.cpus, "text"], ["Shared", row => row.shared, "text extra", true], ["Free CPU", row => Math.max(row.free_m, 0) + "m", "num"],
        ["Free memory", row => gib(row.memory_free_bytes) + " of " + gib(row.memory_bytes), "num"], ["Containers", row => row.containers.join(", "), "text", true]], it.places),
      h("h2", null, "Containers"), it.containers.length ? table("placed", [["Container", row => link(to("search", {q: row.container}), row.container, {"data-row": "1"}), "text", false, row => row.container], ["Class", row => row.qos, "extra", false, row => row.qos], ["Place", row => row.place, "name", false, row => row.place],
        ["CPUs", row => row.cpus, "text"], ["Memory nodes", row => row.mems, "text"]], it.containers) : h("p", {class: "soft"}, "None."),
      ...(it.squeezed || []).map(line => h("p", {class: "warn"}, "Waiting for room: " + line))];
  },
  async search(asked) {
    const has = row => contains(row, asked.q);
    const quiet = promise => promise.catch(() => null);
    const views = overview.views || [];
    const view = name => views.includes(name) || DATA && DATA.views[name] ? quiet(ask("view", {name})) : null;
    const [events, containers, drift, agent, placed] = await Promise.all([ask("events", {q: asked.q, most: 100}), ask("containers"), view("drift"), view("agent"), view("placement")]);
    const made = [h("h1", null, `Search for “${asked.q || ""}”`)];
    const part = (title, rows, columns, more) => rows.length && made.push(h("h2", null, title), table(title, columns, rows.slice(0, 100)), more || (rows.length > 100 ? h("p", {class: "soft"}, `${rows.length - 100} more`) : ""));
    const opens = (href, name) => link(href, name, {"data-row": "1"});
    part("Plugins", overview.plugins.filter(has), [["Plugin", row => opens(to("events", {plugin: row.plugin}), named(row.plugin)), "name"], ["State", row => row.state || "–"], ["Last error", row => row.last_error, "text", true]]);
    part("Containers", containers.containers.filter(has), [["Container", row => opens(to("container", {id: row.id}), row.name || row.id), "text"], ["Pod", row => row.pod || "–", "text"]]);
    part("Differences now", drift ? drift.now.filter(has) : [], [["Of", row => opens("#/drift", row.subject), "text"], ["Cgroup file", row => row.knob], ["Found", row => text(row.found), "text"]]);
    part("Agent", agent && agent.pods ? agent.pods.filter(has) : [], [["Pod", row => opens(to("agent", {pod: row.key}), [row.namespace, row.name].filter(Boolean).join("/") || row.key), "text"]]);
    part("CPUs", placed ? placed.containers.filter(has) : [], [["Container", row => opens("#/placement", row.container), "text"], ["CPUs", row => row.cpus, "text"]]);
    part("Events", events.rows.slice(0, 100), [["Time (UTC)", row => opens(eventLink(row), clock(row.time_ms)), "time"], ["Event", row => row.event], ["Pod/container", subject, "text"], ["Outcome", outcome, "text"]],
      h("p", null, link(to("events", {q: asked.q}), events.more ? "All matching events: there may be more" : "As a list of events")));
    if (made.length === 1) made.push(h("p", {class: "soft"}, events.more ? h("span", null, "No matches so far. ", link(to("events", {q: asked.q}), "Search all events")) : "No matches."));
    return made;
  },
  async help() {
    const keys = [["1 2 3", "overview, events, containers"], ["4 5 6", "drift, agent, CPUs, where they run"], ["/", "search"], ["j k", "next and previous row"], ["Enter", "open the row"], ["n", "older events"],
      ["p", "pause or continue a live page"], ["b", "back"], ["?", "this page"]];
    return [h("h1", null, "Keys"), h("dl", null, keys.flatMap(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, text)])),
      h("p", {class: "soft"}, "Click on a chart to see the events at that time, on a point of the events to open the event, and on a column's title to sort by it."),
      h("p", {class: "soft"}, "Every view has its own address: copy it to share it. Opening it requires the token.")];
  },
};

function place() {
  const [path, query] = location.hash.slice(2).split("?");
  return [Object.hasOwn(VIEWS, path) ? path : "", Object.fromEntries(new URLSearchParams(query || ""))];
}
// The name of an event, or the number of events.
function some(names) {
  const all = names.split(",");
  return all.length > 1 ? h("span", {title: all.join(", ")}, `${all.length} events`) : all.join(", ");
}
function say(text, bad) { $("state").textContent = text; $("state").className = bad ? "bad" : text === "live" ? "live" : ""; }

function login() {
  const input = h("input", {type: "password", "aria-label": "Token", autocomplete: "off"});
  const form = h("form", null, h("p", null, "This page needs the token that nri inspect has printed: the part of its address after #token="), input);
  form.addEventListener("submit", event => { event.preventDefault(); keep(input.value.trim()); draw(); });
  $("main").replaceChildren(form);
  input.focus();
}
function keep(text) { token = text; try { sessionStorage.setItem("token", text); } catch { /* a page without storage */ } }

function show(made, again) {
  $("main").dataset.at = location.hash;
  const active = document.activeElement && $("main").contains(document.activeElement) ? document.activeElement : null;
  const href = active?.getAttribute("href"), id = active?.id;
  const left = [...document.querySelectorAll(".scroll")].map(box => box.scrollLeft);
  const open = [...document.querySelectorAll("details")].map(box => box.open);
  $("main").replaceChildren(...made);
  document.querySelectorAll(".scroll").forEach((box, at) => { box.scrollLeft = again ? left[at] || 0 : 0; });
  if (again) document.querySelectorAll("details").forEach((box, at) => { box.open = open[at] || false; });
  if (href) [...$("main").querySelectorAll("a")].find(link => link.getAttribute("href") === href)?.focus({preventScroll: true});
  else if (id && id !== "main") $(id)?.focus({preventScroll: true});
}

async function draw(again) {
  const mine = ++turn;
  clearTimeout(timer);
  following?.abort();
  const [path, asked] = place();
  try {
    overview = await ask("overview");
    overview.plugins.forEach(row => colour(row.plugin));
    list = null;
    const made = await VIEWS[path](asked);
    if (mine !== turn) return;
    show(made, again);
    list?.draw();
    $("pause").hidden = overview.mode !== "live";
    say(paused ? "paused" : overview.mode);
    if (!DATA && !paused && !document.hidden && (path === "" || list) && (overview.mode === "live" ? path === "" || list.live : !overview.done)) follow(mine, path);
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) { login(); say("no token", true); return; }
    if (!error.status && DATA) throw error;
    say(error.status ? error.message : "nri inspect does not answer", true);
    if (!DATA) timer = setTimeout(() => draw(true), 1000);
  }
  for (const item of document.querySelectorAll("nav a")) {
    const href = item.getAttribute("href");
    href === "#/" + ({event: "events", container: "containers"}[path] || path) ? item.setAttribute("aria-current", "page") : item.removeAttribute("aria-current");
    if (["#/drift", "#/agent", "#/placement"].includes(href)) item.hidden = !(overview && (overview.views || []).includes(href.slice(2)));
  }
  if (document.activeElement !== $("search")) $("search").value = ["events", "search"].includes(path) ? asked.q || "" : "";
}

// Server-sent events are read here, because the browser's EventSource cannot send the token.
async function follow(mine, path) {
  following = new AbortController();
  try {
    const asked = list ? {...list.asked, after: list.last} : {};
    const answer = await fetch("/api/follow?" + new URLSearchParams(asked), {headers: {Authorization: "Bearer " + token}, signal: following.signal});
    if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), {status: answer.status});
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let pending = "", part = await reader.read(); !part.done && mine === turn; part = await reader.read()) {
      pending += part.value;
      const messages = pending.split("\n\n");
      pending = messages.pop();
      for (const message of messages) apply(JSON.parse(message.slice(6)), path);
    }
    if (mine === turn && overview.mode !== "live") draw(true);
    else if (mine === turn) throw Object.assign(new Error("nri inspect does not answer"), {status: 503});
  } catch (error) {
    if (mine !== turn) return;
    say(error.status ? error.message : "nri inspect does not answer", true);
    timer = setTimeout(() => draw(true), 1000);
  }
}
async function apply(it, path) {
  tooFast += it.too_fast;
  if (it.overview) overview = it.overview;
  say(it.unanswered || overview.mode, Boolean(it.unanswered));
  if (list) list.add(it.rows);
  else if (path === "" && it.overview && !getSelection().toString()) show(await VIEWS[""](), true);
}
function pause() {
  if ($("pause").hidden) return;
  paused = !paused;
  $("pause").textContent = paused ? "Continue" : "Pause";
  if (!paused) { draw(true); return; }
  ++turn;
  clearTimeout(timer);
  following?.abort();
  say("paused");
}

addEventListener("visibilitychange", () => { if (document.hidden) following?.abort(); else if (!paused) draw(true); });
addEventListener("hashchange", () => { if (!fragment()) draw(); scrollTo(0, 0); });
NARROW.addEventListener("change", () => { if (list) { list.plotted = 0; list.soon(); } });
$("pause").addEventListener("click", pause);
$("search").addEventListener("input", () => {
  clearTimeout($("search").waits);
  $("search").waits = setTimeout(() => {
    location.hash = to("search", {q: $("search").value.trim()});
  }, 200);
});
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (["INPUT", "SELECT"].includes(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  const view = {"1": "#/", "2": "#/events", "3": "#/containers", "4": "#/drift", "5": "#/agent", "6": "#/placement", "?": "#/help"}[event.key];
  if (view) location.hash = view;
  else if (event.key === "/") $("search").focus();
  else if (list && "jk".includes(event.key)) list.move(event.key === "j" ? 1 : -1);
  else if (event.key === "j") rows[Math.min(at + 1, rows.length - 1)]?.focus();
  else if (event.key === "k") rows[Math.max(at - 1, 0)]?.focus();
  else if (event.key === "b") history.back();
  else if (event.key === "p") pause();
  else if (event.key === "n") document.querySelector("[data-next]")?.click();
  else return;
  event.preventDefault();
});

// Remove the token from the address, so that a copied link does not contain it.
function fragment() {
  const match = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (!match) return false;
  keep(match[1]);
  history.replaceState(null, "", "#/");
  draw();
  return true;
}
try { token = sessionStorage.getItem("token") || ""; } catch { /* a page without storage */ }
if (!fragment()) draw();
