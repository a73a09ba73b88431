"use strict";
// The live page: asks the service once a second, writes numbers as text, draws three charts with uPlot. Everything that came from
// outside goes in as text (textContent), never as markup.
(() => {
  const POLL_MS = 1000, KEPT = 5000, EDGE = 9.3; // the axis of chances ends at 0.01% and 99.99%
  const $ = (selector, from = document) => from.querySelector(selector);
  const put = (selector, text) => { const e = $(selector); if (e.textContent !== text) e.textContent = text; };
  const made = (tag, text, name) => { const e = document.createElement(tag); if (text != null) e.textContent = text; if (name) e.className = name; return e; };
  const logit = (p) => Math.log(p / (1 - p));
  const clipped = (v) => v == null ? null : Math.max(-EDGE, Math.min(EDGE, v));

  let bundle = null, readings = [], alarms = [], labels = [], span = 0, charts = [], failures = 0, last = null;
  let token = sessionStorage.getItem("token") || "";
  const given = /[#&]token=([^&]+)/.exec(location.hash);
  if (given) {
    token = decodeURIComponent(given[1]);
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname);
  }

  // Numbers as a person reads them.
  const percent = (v, digits) => {
    if (v == null) return "–";
    const p = 100 * v;
    if (digits == null) digits = p > 99.9 || p < 0.1 ? 2 : p > 99 || p < 1 ? 1 : 0;
    if (p > 0 && p < 0.01) return "<0.01%";
    if (p < 100 && p > 99.99) return ">99.99%";
    return p.toFixed(digits) + "%";
  };
  const amount = (v) => {
    if (v == null) return "–";
    const size = Math.abs(v), digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size === 0 ? 0 : 3;
    return v.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const whole = (v) => v == null ? "–" : Math.round(v).toLocaleString("en-GB");
  const when = (t) => t == null ? "–" : new Date(1000 * t).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  const between = (low, high, as) => low == null || high == null ? "" : `${as(low)} to ${as(high)}`;
  const point = (v) => percent(v, 1);

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
    document.title = (kind === "alarm" ? "(!) " : "") + verdict + (bundle ? ` · ${bundle.subject}` : "");
  }

  function showNow(live) {
    const watched = live.windows.find((w) => w.window === bundle.alarm.window) || live.windows[0];
    if (!watched || !live.total.accepted) {
      status("waiting", "…", "Waiting for events", "");
    } else if (live.alarm) {
      const since = [...alarms].reverse().find((a) => a.kind === "raised");
      status("alarm", "!", "Alarm", (since ? `Since ${when(since.time)} (event ${whole(since.event)}). ` : "") +
        (watched.cannot_tell ? `Now it cannot tell: ${watched.cannot_tell}.` : `The risk is now ${amount(watched.risk)} ${bundle.unit}; ${amount(bundle.tolerable)} would be tolerable.`));
    } else if (watched.cannot_tell) {
      status("unknown", "?", "Cannot tell", `Because ${watched.cannot_tell}.`);
    } else if (bundle.tolerable == null) {
      status("unknown", "?", "No limit was given", "The bundle names no tolerable risk, so nothing is watched.");
    } else {
      status("tolerable", "✓", "Tolerable", "");
    }
    const w = watched || {};
    put("#risk", w.risk == null ? "–" : amount(w.risk));
    put("#risk-interval", w.risk == null ? bundle.unit : `${bundle.unit}; 95%: ${between(w.risk_low, w.risk_high, amount)}`);
    put("#exceedance", percent(w.exceedance));
    put("#exceedance-rule", bundle.tolerable == null ? "no tolerable risk given" : `above ${amount(bundle.tolerable)}; alarm from ${percent(bundle.alarm.on)}`);
    put("#accuracy", w.accuracy == null ? "–" : point(w.accuracy));
    put("#accuracy-interval", w.accuracy == null ? "" : `95%: ${between(w.accuracy_low, w.accuracy_high, point)}`);
    put("#rate", w.rate == null ? "–" : point(w.rate));
    put("#rate-interval", w.rate == null ? "" : `95%: ${between(w.rate_low, w.rate_high, point)}`);
    put("#events", whole(live.total.accepted));
    const t = live.total;
    const aside = [["repeated", t.repeated], ["late", t.late], ["without a score", t.unscored]].filter(([, n]) => n > 0).map(([k, n]) => `${whole(n)} ${k}`);
    put("#events-detail", `window ${whole(w.n)}, worth ${whole(w.effective_n)}` + (aside.length ? `; ${aside.join(", ")}` : ""));
    rows("#windows tbody", live.windows, (v) => [
      [v.label, ""], [whole(v.n), "num"], [whole(v.effective_n), "num"],
      [v.accuracy == null ? "–" : point(v.accuracy), "num", between(v.accuracy_low, v.accuracy_high, point)],
      [amount(v.risk), "num", between(v.risk_low, v.risk_high, amount)], [percent(v.exceedance), "num"],
      [v.rate == null ? "–" : point(v.rate), "num", between(v.rate_low, v.rate_high, point)],
      [v.cannot_tell ? `cannot tell: ${v.cannot_tell}` : (v.notes || []).join("; "), ""],
    ]);
  }

  function rows(where, items, cells) {
    const body = $(where), text = JSON.stringify(items.map(cells));
    if (body.dataset.shown === text) return;
    body.dataset.shown = text;
    body.replaceChildren(...items.map((item) => {
      const row = made("tr");
      for (const [content, name, below] of cells(item)) {
        const cell = made("td", null, name);
        if (content instanceof Node) cell.append(content); else cell.textContent = content;
        if (below) cell.append(made("span", below, "sub"));
        row.append(cell);
      }
      return row;
    }));
  }

  function showAlarms() {
    $("#alarms .empty").hidden = alarms.length > 0;
    $("#alarms .scroll").hidden = alarms.length === 0;
    rows("#alarms tbody", alarms.slice(-50).reverse().map((a) => ({ ...a, toJSON: undefined })), (a) => [
      [when(a.time), ""], [made("span", a.kind, `status ${a.kind}`), ""], [whole(a.event), "num"], [percent(a.exceedance), "num"], [amount(a.risk), "num"],
    ]);
  }

  function showBundle() {
    put("#subject", bundle.subject);
    put("#risk-unit", bundle.unit);
    put("#bundle", `Bundle ${bundle.id}.`);
    const facts = [
      ["Calibrated on", bundle.kinds.map((k) => `${k.kind}: ${whole(k.rows)} rows, ${point(k.accuracy)} right`).join("; ")],
      ["Scores read", bundle.scores.join(", ")],
      ["Forecast before release", bundle.forecast ? `${amount(bundle.forecast.risk)} ${bundle.unit} (${between(bundle.forecast.low, bundle.forecast.high, amount)})` : "none was made"],
      ["Tolerable risk", bundle.tolerable == null ? "none was given" : `${amount(bundle.tolerable)} ${bundle.unit}`],
      ["Alarm", bundle.alarm.sentence],
      ["Events sent again", bundle.horizons],
      ["Notes", bundle.notes.join("; ") || "none"],
    ];
    $("#basis-facts").replaceChildren(...facts.map(([k, v]) => { const d = made("div"); d.append(made("dt", k), made("dd", v)); return d; }));
    $("#blind").replaceChildren(...bundle.blind.map((b) => made("li", b)));
  }

  // Charts.
  const seen = () => {
    const end = readings.length ? readings[readings.length - 1].time : 0;
    return span ? readings.filter((r) => r.time >= end - span) : readings;
  };
  const column = (from, key) => from.map((r) => r[key] ?? null);

  function marks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.lineWidth = 2 * devicePixelRatio;
    for (const alarm of alarms) {
      if (alarm.time < u.scales.x.min || alarm.time > u.scales.x.max) continue;
      const x = u.valToPos(alarm.time, "x", true);
      ctx.strokeStyle = colour(alarm.kind === "raised" ? "breached" : "met");
      ctx.setLineDash(alarm.kind === "raised" ? [] : [5 * devicePixelRatio, 4 * devicePixelRatio]);
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
    const { ctx, bbox } = u, top = u.valToPos(high, "y", true), bottom = u.valToPos(low, "y", true);
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

  function options(figure, { range, series, bands = [], values, splits, under, over, size }) {
    const font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: colour("muted"), font, grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 } };
    const place = $(".plot", figure);
    return {
      width: Math.max(place.clientWidth, 200), height: innerWidth < 600 ? 190 : 230,
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: true, y: false }, sync: { key: "time" } },
      scales: { x: { time: true }, y: { range } },
      axes: [{ ...axis, space: 70, values: uPlot_time }, { ...axis, size: size || 58, values, ...(splits ? { splits } : {}) }],
      series: [{}, ...series], bands,
      hooks: { drawClear: [under], draw: [over], setCursor: [(u) => readout(figure, u)] },
    };
  }

  // 24 hours, and the date where the day changes.
  const uPlot_time = (u, splits, at, space, step) => {
    let day = "";
    return splits.map((t) => {
      const d = new Date(1000 * t), date = d.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const clock = d.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
      const first = date !== day; day = date;
      return step >= 86400 ? date : first ? `${clock}\n${date}` : clock;
    });
  };

  function readout(figure, u) {
    const text = $(".now", figure);
    if (!text) return;
    const i = u.cursor.idx, shown = seen(), r = i == null ? null : shown[i];
    text.textContent = r ? `${when(r.time)}: ${figure.dataset.kind === "exceedance" ? percent(r.exceedance)
      : figure.dataset.kind === "risk" ? `${amount(r.risk)} (${between(r.risk_low, r.risk_high, amount)})`
      : `${point(r.accuracy)} (${between(r.accuracy_low, r.accuracy_high, point)})`}` : "";
  }

  const caption = (figure, parts) => $("figcaption", figure).replaceChildren(
    ...parts.map(([name, text]) => { const s = made("span"); s.append(made("i", null, name), made("span", text)); return s; }), made("span", "", "now"));

  function build() {
    charts.forEach((c) => c.destroy());
    charts = [];
    const line = (extra = {}) => ({ stroke: colour("accent"), width: 2, points: { show: false }, spanGaps: false, ...extra });
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
    const ticks = [0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999].map(logit);
    const first = make("figure-exceedance", "exceedance", ["log_odds"], {
      range: () => [-EDGE - 0.3, EDGE + 0.3], series: [line()], splits: () => ticks,
      values: (u, v) => v.map((x) => { const p = 1 / (1 + Math.exp(-x)); return percent(p, p > 0.998 || p < 0.002 ? (p > 0.9998 || p < 0.0002 ? 2 : 1) : 0); }),
      under: () => {}, size: 62,
      over: (u) => { level(u, clipped(bundle.alarm.on_log_odds), "ink"); level(u, clipped(bundle.alarm.off_log_odds), "muted", true); marks(u); },
    });
    caption(first, [["", `window of ${bundle.alarm.label}`], ["limit", `alarm from ${percent(bundle.alarm.on)}`], ["off", `cleared below ${percent(bundle.alarm.off)}`], ["alarm", "raised"], ["cleared", "cleared"]]);
    const forecast = bundle.forecast || {};
    const second = make("figure-risk", "risk", ["risk", "risk_high", "risk_low"], {
      range: (u, low, high) => spread([low, high, bundle.tolerable, forecast.low, forecast.high], 0),
      series: [line(), hidden, hidden], bands: band, values: (u, v) => v.map(amount),
      under: (u) => hatched(u, forecast.low, forecast.high), over: (u) => { level(u, bundle.tolerable, "ink"); marks(u); },
    });
    caption(second, [["", "expected"], ["band", "95% interval"], ...(bundle.tolerable == null ? [] : [["limit", `tolerable: ${amount(bundle.tolerable)}`]]),
      ...(bundle.forecast ? [["forecast", "forecast before release"]] : []), ["alarm", "raised"]]);
    const third = make("figure-accuracy", "accuracy", ["accuracy", "accuracy_high", "accuracy_low"], {
      range: (u, low, high) => spread([low, high, ...labels.flatMap((l) => [l.low, l.high]), forecast.accuracy_low, forecast.accuracy_high], 0, 1),
      series: [line(), hidden, hidden], bands: band, values: (u, v) => v.map((x) => percent(x, 0)),
      under: (u) => hatched(u, forecast.accuracy_low, forecast.accuracy_high), over: (u) => { dots(u); marks(u); },
    });
    caption(third, [["", "expected"], ["band", "95% interval"], ...(forecast.accuracy_low == null ? [] : [["forecast", "forecast before release"]]), ["dot", "labelled afterwards, with interval"], ["alarm", "raised"]]);
    fill();
  }

  function spread(values, floor, ceiling) {
    const all = values.filter((v) => v != null && isFinite(v));
    if (!all.length) return [0, 1];
    let low = Math.min(...all), high = Math.max(...all);
    const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 1e-6);
    low = floor == null ? low - room : Math.max(floor, low - room);
    high = ceiling == null ? high + room : Math.min(ceiling, high + room);
    return [low, high];
  }

  function fill() {
    const shown = seen(), x = column(shown, "time");
    for (const chart of charts) {
      const data = [x, ...chart.keys.map((k) => column(shown, k).map((v) => k === "log_odds" ? clipped(v) : v))];
      chart.setData(data);
    }
    const r = shown[shown.length - 1];
    if (r) {
      $("#figure-exceedance .plot").setAttribute("aria-label", `Chance that the risk is intolerable over time; now ${percent(r.exceedance)}`);
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
      const after = readings.length ? readings[readings.length - 1].time : "";
      const live = await ask(`/v1/live?after=${after}`);
      if (live.bundle !== bundle.id) { bundle = null; readings = []; return; }
      readings = readings.concat(live.history).slice(-KEPT);
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
