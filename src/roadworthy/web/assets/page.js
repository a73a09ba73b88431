"use strict";
// The live page: asks the service once a second, writes numbers as text, draws three charts with uPlot. Everything that came from
// outside goes in as text (textContent), never as markup.
(() => {
  const { gaps, logit, percent, point, chance, threshold, amount, whole, when, since1970, between, spread } = numbers;
  const POLL_MS = 1000, KEPT = 5000, EDGE = 7.2; // log-odds beyond are drawn at the edge: chances of 0.1% and 99.9%
  const $ = (selector, from = document) => from.querySelector(selector);
  const put = (selector, text) => { const e = $(selector); if (e.textContent !== text) e.textContent = text; };
  const made = (tag, text, name) => { const e = document.createElement(tag); if (text != null) e.textContent = text; if (name) e.className = name; return e; };
  const clipped = (v) => v == null ? null : Math.max(-EDGE, Math.min(EDGE, v));

  let bundle = null, upto = -1, readings = [], drawn = [], alarms = [], labels = [], span = 0, charts = [], failures = 0, last = null;
  let token = sessionStorage.getItem("token") || "";
  const given = /[#&]token=([^&]+)/.exec(location.hash);
  if (given) {
    token = decodeURIComponent(given[1]);
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname);
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--rw-${name}`).trim();

  async function ask(path) {
    const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
    if (answer.status === 401) { needToken(); throw new Error("token"); }
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
    return answer.json();
  }

  function needToken() {
    $("#token-form").hidden = false;
    status("waiting", "…", "This service needs its token", "");
  }

  function status(kind, mark, verdict, reason) {
    $("#status").dataset.status = kind;
    put("h1 .mark", mark);
    put("#verdict", verdict);
    put("#reason", reason);
    document.title = (kind === "alarm" ? "(!) " : "") + verdict + (bundle ? ` · ${called()}` : "");
  }

  // Whether a note ("29 of 100 events say nothing, since ...") begins with the numbers of a reason ("29 of 100 events lack ...").
  const sameLack = (note, reason) => { const head = /^[\d,]+ of [\d,]+ events? /.exec(reason); return head != null && note.startsWith(head[0]); };

  // The window whose labels count: one whose own labels say that the risk is intolerable, else the one that is watched.
  const audit = (windows, watched) => [watched, ...windows].find((v) => v.audited && !v.audited.carried && bundle.tolerable != null && v.audited.risk_low > bundle.tolerable)
    || (watched.audited ? watched : null);

  function showNow(live) {
    const w = live.windows.find((v) => v.window === bundle.watched) || {};
    const percentage = percent(bundle.confidence, 0), limit = amount(bundle.tolerable);
    const told = live.total.accepted > 0 && !w.cannot_tell, labelled = audit(live.windows, w), a = labelled && labelled.audited;
    const proven = a != null && bundle.tolerable != null && a.risk_low > bundle.tolerable;
    const byLabels = a ? `By ${whole(a.labels)} labels${a.carried ? " of earlier events" : ""} the risk${labelled === w ? "" : ` (window: ${labelled.label})`} is ${amount(a.risk)} (${between(a.risk_low, a.risk_high, amount)}) ${bundle.unit}; ${limit} is tolerable.` : "";
    const scoresSay = a && labelled.risk != null ? ` By the scores alone it would be ${amount(labelled.risk)}.` : "";
    if (!live.total.accepted && live.total.unscored) {
      status("unknown", "?", "Cannot tell", w.cannot_tell ? `Because ${w.cannot_tell}.` : `None of ${whole(live.total.unscored)} events says anything.`);
    } else if (!live.total.accepted) {
      status("waiting", "…", "Waiting for events", "");
    } else if (live.alarm) {
      const since = [...alarms].reverse().find((a) => a.kind === "raised");
      status("alarm", "!", "Alarm", (since ? `Since ${when(since.time)}, event ${whole(since.event)}. ` : "") +
        (proven ? byLabels + scoresSay : w.cannot_tell ? `Now nobody can tell: ${w.cannot_tell}.` : `The risk is now ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable.`));
    } else if (proven) {
      status("unknown", "!", "Above the limit, by labels", byLabels + scoresSay);
    } else if (w.cannot_tell) {
      status("unknown", "?", "Cannot tell", `Because ${w.cannot_tell}.`);
    } else if (bundle.tolerable == null) {
      status("unknown", "?", "No limit was given", "The bundle names no tolerable risk, so that no alarm is raised.");
    } else if (a && a.risk > bundle.tolerable) {
      status("unknown", "?", "Above the limit by labels, not yet sure", byLabels + scoresSay);
    } else if (w.risk > bundle.tolerable) {
      status("unknown", "?", "Above the limit, not yet sure", `The risk is expected to be ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable. The evidence does not suffice for an alarm.`);
    } else {
      status("tolerable", "✓", "Tolerable", `The risk is expected to be ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable.`);
    }
    // What cannot be relied on is not shown: a figure is believed, whatever stands above it.
    const missing = live.total.accepted + live.total.unscored ? "cannot be told now" : "";
    const figure = (name, v, low, high, as, unit = "") => {
      put(`#${name}`, told && v != null ? as(v) : "–");
      put(`#${name}-interval`, told && v != null ? `${percentage}: ${between(low, high, as)}${unit}` : missing);
    };
    figure("risk", w.risk, w.risk_low, w.risk_high, amount, ` ${bundle.unit}`);
    figure("accuracy", w.accuracy, w.accuracy_low, w.accuracy_high, point);
    figure("rate", w.rate, w.rate_low, w.rate_high, point);
    const checked = (low, value, high, as) => a ? `by ${whole(a.labels)} labels${labelled === w ? "" : ` (${labelled.label})`}: ${as(value)} (${between(low, high, as)})` : "";
    put("#risk-labels", a ? checked(a.risk_low, a.risk, a.risk_high, amount) : "");
    put("#accuracy-labels", a ? checked(a.accuracy_low, a.accuracy, a.accuracy_high, point) : "");
    put("#exceedance", told ? chance(w.log_odds) : "–");
    put("#exceedance-rule", bundle.alarm ? live.rings : "no tolerable risk given");
    const t = live.total;
    put("#events", whole(t.accepted + t.unscored)); // as events are numbered: those without a score, too
    const aside = [["repeated", t.repeated], ["late", t.late], ["ahead", t.ahead]].filter(([, n]) => n > 0).map(([k, n]) => `${whole(n)} ${k} (not counted)`);
    if (t.unscored) aside.unshift(`${whole(t.unscored)} of them without a score`);
    put("#events-detail", [`${whole(w.n)} in the window, worth ${whole(w.effective_n)}`, ...aside].join("; "));
    rows("#windows tbody", live.windows, (v) => [
      [v.label + (v.window === bundle.watched ? " (watched)" : ""), ""], [whole(v.n), "num"], [whole(v.effective_n), "num"],
      ...(v.cannot_tell || !v.n ? [["–", "num", v.n ? "cannot tell" : ""], ["–", "num"], ["–", "num"], ["–", "num"]] : [
        [point(v.accuracy), "num", between(v.accuracy_low, v.accuracy_high, point)], [amount(v.risk), "num", between(v.risk_low, v.risk_high, amount)],
        [chance(v.log_odds), "num"], [point(v.rate), "num", between(v.rate_low, v.rate_high, point)]]),
      ...(v.audited ? [[point(v.audited.accuracy), "num", between(v.audited.accuracy_low, v.audited.accuracy_high, point)],
        [amount(v.audited.risk), "num", between(v.audited.risk_low, v.audited.risk_high, amount)]] : [["–", "num"], ["–", "num"]]),
    ]);
    const shared = live.windows.length ? live.windows[0].notes.filter((n) => live.windows.every((v) => v.notes.includes(n))) : [];
    // Why it cannot tell is often a note's reason as well: the same is said once.
    const own = live.windows.flatMap((v) => {
      const notes = v.notes.filter((n) => !shared.includes(n)), again = v.cannot_tell ? notes.filter((n) => !sameLack(n, v.cannot_tell)) : notes;
      return [...(v.cannot_tell ? [`cannot tell: ${v.cannot_tell}`] : []), ...again].map((n) => `${v.label}: ${n}`);
    });
    list("#remarks", [...shared, ...own]);
  }

  function list(where, items) {
    const place = $(where), text = JSON.stringify(items);
    if (place.dataset.shown === text) return;
    place.dataset.shown = text;
    place.replaceChildren(...items.map((item) => made("li", item)));
  }

  function rows(where, items, cells) {
    const body = $(where), text = JSON.stringify(items.map(cells)), heads = [...body.closest("table").querySelectorAll("th")];
    if (body.dataset.shown === text) return;
    body.dataset.shown = text;
    body.replaceChildren(...items.map((item) => {
      const row = made("tr");
      for (const [i, [content, name, below]] of cells(item).entries()) {
        const cell = made("td", null, name);
        cell.dataset.label = heads[i].textContent;
        if (name === "kind") cell.append(made("span", content, `status ${content}`)); else cell.textContent = content;
        if (below) cell.append(made("span", below, "sub"));
        row.append(cell);
      }
      return row;
    }));
  }

  function showAlarms() {
    $("#alarms .empty").hidden = alarms.length > 0;
    $("#alarms .scroll").hidden = alarms.length === 0;
    rows("#alarms tbody", alarms.slice(-50).reverse(), (a) => [
      [when(a.time), ""], [a.kind, "kind", a.reason || (a.delivered === false ? "not delivered yet" : "")], [whole(a.event), "num"],
      ...(a.log_odds == null ? [["–", "num"], [a.risk == null ? "–" : amount(a.risk), "num"]] : [[chance(a.log_odds), "num"], [amount(a.risk), "num"]]),
    ]);
  }

  function called() { // the subject as people call it; a fingerprint is for machines
    return (bundle.made && bundle.made.subject) || bundle.subject;
  }

  function showBundle() {
    put("#subject", called());
    put("#risk-unit", bundle.unit);
    put("#bundle", `Bundle ${bundle.id}.`);
    const rule = bundle.alarm, forecast = bundle.forecast;
    const facts = [
      ["Calibrated on", bundle.kinds.map((k) => `${k.kind}: ${whole(k.rows)} rows, ${point(k.accuracy)} right`).join("; ")],
      ["Scores", bundle.scores.join(", ")],
      ["Coverage on unseen shifts", bundle.coverage || "was not measured"],
      ["Forecast before release", forecast ? `${amount(forecast.risk)} ${bundle.unit} (${between(forecast.low, forecast.high, amount)}), with ${percent(forecast.rate, 0)} of inputs shifted` : "none was made"],
      ["Tolerable risk", bundle.tolerable == null ? "none was given" : `${amount(bundle.tolerable)} ${bundle.unit}`],
      ["Alarm", rule ? `on windows of ${rule.label}, every ${whole(rule.stride)} events; set for ${rule.false_alarms} without shift, at ${whole(rule.events_per_day)} events a day` : "none: no tolerable risk was given"],
      ["Late and repeated", `events up to ${whole(bundle.lateness_s)} s older than the newest are counted, if they are among the last ${whole(bundle.id_horizon)} by time: so many ids are known again`],
      ["Notes", [...bundle.notes, ...(rule ? rule.notes : [])].join("; ") || "none"],
    ];
    $("#basis-facts").replaceChildren(...facts.map(([k, v]) => { const d = made("div"); d.append(made("dt", k), made("dd", v)); return d; }));
    list("#blind", bundle.blind_to);
  }

  // Charts.
  const seen = () => {
    const end = readings.length ? readings[readings.length - 1].time : 0;
    return span ? readings.filter((r) => r.time >= end - span) : readings;
  };
  // With a place of its own for every time without events, at which there is nothing: no line is drawn across.
  const parted = (from) => {
    const after = new Set(gaps(from.map((r) => r.time)));
    return from.flatMap((r, i) => after.has(i) ? [r, { time: (r.time + from[i + 1].time) / 2, nothing: true }] : [r]);
  };
  const column = (from, key) => from.map((r) => r.cannot_tell && key !== "time" ? null : r[key] ?? null);
  // One point, or none, has a neighbourhood all the same.
  const times = (u, low, high) => low == null || !u.data[0].length ? [Date.now() / 1000 - 600, Date.now() / 1000]
    : u.data[0].length === 1 ? [u.data[0][0] - 300, u.data[0][0] + 300] : high - low < 10 ? [low - 300, high + 300] : [low - 0.01 * (high - low), high + 0.01 * (high - low)];

  function untold(u) { // the time of which nobody can tell
    const { ctx, bbox } = u, shown = drawn, edge = (i, j) => u.valToPos((shown[i].time + (shown[j] || shown[i]).time) / 2, "x", true);
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.fillStyle = colour("inconclusive-soft");
    for (let i = 0; i < shown.length; i++) {
      if (!shown[i].cannot_tell) continue;
      let j = i;
      while (j + 1 < shown.length && shown[j + 1].cannot_tell) j++;
      const left = edge(i, i - 1), right = edge(j, j + 1), room = Math.max(0, 3 * devicePixelRatio - (right - left) / 2);
      ctx.fillRect(left - room, bbox.top, right - left + 2 * room, bbox.height);
      i = j;
    }
    ctx.restore();
  }

  function whiskers(u) { // the interval of one point, which makes no band
    if (u.data[0].length > 1) return;
    const { ctx } = u;
    ctx.save();
    ctx.strokeStyle = colour("accent");
    ctx.lineWidth = 1.25 * devicePixelRatio;
    u.data[0].forEach((t, i) => {
      if (u.data[2][i] == null) return;
      const x = u.valToPos(t, "x", true);
      ctx.beginPath(); ctx.moveTo(x, u.valToPos(u.data[2][i], "y", true)); ctx.lineTo(x, u.valToPos(u.data[3][i], "y", true)); ctx.stroke();
    });
    ctx.restore();
  }

  function marks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.lineWidth = 2 * devicePixelRatio;
    for (const alarm of alarms) {
      if (alarm.time < u.scales.x.min || alarm.time > u.scales.x.max) continue;
      const x = u.valToPos(alarm.time, "x", true);
      ctx.strokeStyle = colour({ raised: "breached", "cannot tell": "inconclusive" }[alarm.kind] || "met");
      ctx.setLineDash(["raised", "cannot tell"].includes(alarm.kind) ? [] : [5 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    ctx.restore();
  }

  function level(u, value, name, dash) {
    if (value == null || value < u.scales.y.min || value > u.scales.y.max) return;
    const { ctx, bbox } = u, y = u.valToPos(value, "y", true);
    ctx.save();
    ctx.strokeStyle = colour(name);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash(dash ? [6 * devicePixelRatio, 4 * devicePixelRatio] : []);
    ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
    ctx.restore();
  }

  function hatched(u, low, high) {
    if (low == null || high == null) return;
    // On whole pixels: lines between them would be grey, and of no colour that the legend shows.
    const { ctx, bbox } = u, top = Math.round(u.valToPos(high, "y", true)), bottom = Math.round(u.valToPos(low, "y", true));
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.beginPath(); ctx.rect(bbox.left, top, bbox.width, bottom - top); ctx.clip();
    ctx.strokeStyle = colour("edge");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    const step = 7 * devicePixelRatio, height = bottom - top;
    for (let x = bbox.left - height; x < bbox.left + bbox.width; x += step) {
      ctx.beginPath(); ctx.moveTo(x, bottom); ctx.lineTo(x + height, top); ctx.stroke();
    }
    ctx.restore();
  }

  function dots(u) {
    const { ctx } = u;
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = colour("inconclusive");
    ctx.lineWidth = 1.25 * devicePixelRatio;
    for (const l of labels) {
      if (l.time < u.scales.x.min || l.time > u.scales.x.max) continue;
      const x = u.valToPos(l.time, "x", true), y = u.valToPos(l.accuracy, "y", true);
      ctx.beginPath(); ctx.moveTo(x, u.valToPos(l.low, "y", true)); ctx.lineTo(x, u.valToPos(l.high, "y", true)); ctx.stroke();
      ctx.beginPath(); ctx.arc(x, y, Math.min(3 + Math.sqrt(l.n) / 3, 7) * devicePixelRatio, 0, 2 * Math.PI); ctx.fill();
    }
    ctx.restore();
  }

  function options(figure, { range, series, bands = [], values, splits, under, over }) {
    const font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: colour("muted"), font, grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 } };
    const place = $(".plot", figure);
    return {
      width: Math.max(place.clientWidth, 200), height: innerWidth < 600 ? 190 : 230,
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: true, y: false }, sync: { key: "time" } },
      scales: { x: { time: true, range: times }, y: { range } },
      axes: [{ ...axis, space: 70, values: uPlot_time }, { ...axis, size: 70, values, ...(splits ? { splits } : {}) }],
      series: [{}, ...series], bands,
      hooks: { drawClear: [untold, under], draw: [over], setCursor: [(u) => readout(figure, u)] },
    };
  }

  // 24 hours, and the date where the day changes.
  const uPlot_time = (u, splits, at, space, step) => {
    let day = "";
    return splits.map((t) => {
      if (!since1970(t)) return `${t} s`;
      const d = new Date(1000 * t), date = d.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const clock = d.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
      const first = date !== day; day = date;
      return step >= 86400 ? date : first ? `${clock}\n${date}` : clock;
    });
  };

  const watches = () => bundle.alarm ? "alarm_log_odds" : "log_odds";

  function readout(figure, u) {
    const text = $(".now", figure);
    if (!text) return;
    const i = u.cursor.idx, r = i == null ? null : drawn[i];
    text.textContent = r ? `${when(r.time)}: ${r.nothing ? "no events" : r.cannot_tell ? `cannot tell, because ${r.cannot_tell}` : figure.dataset.kind === "exceedance" ? chance(r[watches()])
      : figure.dataset.kind === "risk" ? `${amount(r.risk)} (${between(r.risk_low, r.risk_high, amount)})`
      : `${point(r.accuracy)} (${between(r.accuracy_low, r.accuracy_high, point)})`}` : "";
  }

  const caption = (figure, parts) => $("figcaption", figure).replaceChildren(
    ...parts.map(([name, text]) => { const s = made("span"); s.append(made("i", null, name), made("span", text)); return s; }), made("span", "", "now"));

  const lone = (u, series) => { // places of readings between two gaps, of which no line is drawn
    const found = u.data[series].flatMap((v, i, all) => v != null && all[i - 1] == null && all[i + 1] == null ? [i] : []);
    return found.length ? found : null;
  };

  function build() {
    charts.forEach((c) => c.destroy());
    charts = [];
    const line = (extra = {}) => ({ stroke: colour("accent"), width: 2, spanGaps: false, points: { show: (u) => u.data[0].length < 3, filter: lone, size: 7, fill: extra.stroke || colour("accent") }, ...extra });
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    const band = [{ series: [2, 3], fill: colour("band") }];
    const make = (id, kind, keys, given) => {
      const figure = $(`#${id}`);
      figure.dataset.kind = kind;
      const chart = new uPlot(options(figure, given), [[], ...keys.map(() => [])], $(".plot", figure));
      chart.keys = keys;
      charts.push(chart);
      return figure;
    };
    const ends = bundle.alarm ? [["alarm", "raised"], ["cleared", "cleared"], ["untold", "nobody can tell"]] : [["untold", "nobody can tell"]];
    const spots = [0, 1, 2, 3, 4].flatMap((k) => k ? [logit(10 ** -k), -logit(10 ** -k)] : [0]).sort((a, b) => a - b);
    const first = make("figure-exceedance", "exceedance", [watches()], {
      range: () => [-EDGE - 0.3, EDGE + 0.3], series: [line()],
      splits: (u) => spots.filter((v) => v > u.scales.y.min && v < u.scales.y.max), values: (u, v) => v.map(threshold), under: () => {},
      over: (u) => {
        if (bundle.alarm) { level(u, bundle.alarm.on_log_odds, "ink"); level(u, bundle.alarm.off_log_odds, "muted", true); }
        marks(u);
      },
    });
    caption(first, [["", `window of ${bundle.alarm ? bundle.alarm.label : bundle.watched}`], ...(bundle.alarm ? [["limit", "alarm from here"], ["off", "cleared below"]] : []), ...ends]);
    const forecast = bundle.forecast || {};
    const second = make("figure-risk", "risk", ["risk", "risk_high", "risk_low"], {
      range: (u, low, high) => spread([low, high, bundle.tolerable, forecast.low, forecast.high], 0),
      series: [line(), hidden, hidden], bands: band, values: (u, v) => v.map(amount),
      under: (u) => hatched(u, forecast.low, forecast.high), over: (u) => { level(u, bundle.tolerable, "ink"); whiskers(u); marks(u); },
    });
    caption(second, [["", "expected"], ["band", `${percent(bundle.confidence, 0)} interval`], ...(bundle.tolerable == null ? [] : [["limit", `tolerable: ${amount(bundle.tolerable)}`]]),
      ...(bundle.forecast ? [["forecast", "forecast before release"]] : []), ...ends]);
    const third = make("figure-accuracy", "accuracy", ["accuracy", "accuracy_high", "accuracy_low"], {
      range: (u, low, high) => spread([low, high, ...labels.map((l) => l.accuracy)], 0, 1),
      series: [line(), hidden, hidden], bands: band, values: (u, v) => v.map((x) => percent(x, 0)),
      under: () => {}, over: (u) => { whiskers(u); dots(u); marks(u); },
    });
    caption(third, [["", "expected"], ["band", `${percent(bundle.confidence, 0)} interval`], ["dot", "labelled afterwards, with interval"], ...ends]);
    fill();
  }

  function fill() {
    const shown = drawn = parted(seen()), x = column(shown, "time");
    for (const chart of charts) {
      const data = [x, ...chart.keys.map((k) => column(shown, k).map((v) => k.endsWith("log_odds") ? clipped(v) : v))];
      chart.setData(data);
    }
    const there = { alarm: alarms.some((a) => a.kind === "raised"), cleared: alarms.some((a) => a.kind === "cleared"),
      untold: shown.some((r) => r.cannot_tell), dot: labels.length > 0, band: shown.length > 1 };
    for (const key of document.querySelectorAll("figcaption i")) if (key.className in there) key.parentNode.hidden = !there[key.className];
    const r = shown[shown.length - 1];
    if (r) {
      $("#figure-exceedance .plot").setAttribute("aria-label", `Evidence for an alarm over time; now ${chance(r[watches()])}`);
      $("#figure-risk .plot").setAttribute("aria-label", `Risk over time; now ${amount(r.risk)} ${bundle.unit}`);
      $("#figure-accuracy .plot").setAttribute("aria-label", `Accuracy over time; now ${r.accuracy == null ? "unknown" : point(r.accuracy)}`);
    }
  }

  function feed(state, text) { $("#feed").dataset.state = state; put("#feed", text); }

  async function step() {
    if (document.hidden && last) return;
    try {
      if (!bundle) {
        bundle = await ask("/v1/bundle");
        $("#token-form").hidden = true;
        showBundle();
        build();
      }
      const live = await ask(`/v1/live?after_event=${upto}`);
      if (live.bundle !== bundle.id) { bundle = null; upto = -1; readings = []; return; }
      // Asked for by the number of their event: one whose clock is ahead is drawn there, and does not hold up the others.
      readings = readings.concat(live.history).slice(-KEPT);
      upto = live.history.reduce((most, r) => Math.max(most, r.event), upto);
      readings.sort((a, b) => a.time - b.time || a.event - b.event);
      alarms = live.alarms;
      labels = live.labels;
      showNow(live);
      showAlarms();
      fill();
      failures = 0;
      last = Date.now();
      feed("live", `live, ${new Date().toLocaleTimeString("en-GB")}`);
    } catch (error) {
      if (error.message === "token") return;
      failures += 1;
      feed("lost", last ? `no answer since ${new Date(last).toLocaleTimeString("en-GB")}` : `no answer (${error.message})`);
    }
  }

  async function run() {
    for (;;) {
      await step();
      await new Promise((next) => setTimeout(next, Math.min(POLL_MS * 2 ** Math.min(failures, 4), 15000)));
    }
  }

  $("#token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("#token").value;
    sessionStorage.setItem("token", token);
    step();
  });
  document.querySelectorAll(".choice button").forEach((button) => button.addEventListener("click", () => {
    span = Number(button.dataset.span);
    document.querySelectorAll(".choice button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    fill();
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => bundle && build());
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => bundle && build(), 150); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) step(); });
  run();
})();
