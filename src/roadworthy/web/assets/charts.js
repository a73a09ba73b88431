"use strict";
// The three charts, drawn with uPlot: what the alarm watches, as events arrive, and the risk and the accuracy over the time of events;
// or all over the number of the event, if many events have the same time.
const charts = (() => {
  const { $, put, made } = elements;
  const { crowded, gaps, logit, percent, confidence, chance, threshold, amount, ticks, whole, when, since1970, zone, between, spread } = numbers;
  const EDGE = 7.2; // log-odds beyond are drawn at the edge: chances of 0.1% and 99.9%
  const clipped = (v) => v == null ? null : Math.max(-EDGE, Math.min(EDGE, v));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--rw-${name}`).trim();

  let bundle = null, readings = [], drawn = { arrival: [], time: [] }, alarms = [], labels = [], span = 0, zoom = null, plots = [], byEvent = false;

  // Readings come in the order of looks. What the alarm watches is of events as they arrive: each look has the time of the newest
  // event there was, which never goes back.
  const byArrival = () => { let newest = -Infinity; return readings.map((r) => ({ ...r, time: newest = Math.max(newest, r.time) })); };
  // Figures are by the time of events: after late events, the readings of the last events are drawn anew in place of the earlier
  // ones. Points before stay as they were drawn, even if late events belong there.
  const byTime = () => {
    const kept = [];
    for (const r of readings) {
      while (kept.length && kept[kept.length - 1].time > r.time) kept.pop();
      kept.push(r);
    }
    return kept;
  };
  // Where something stands: at its time, or at its event. A label has a time alone, between those of two readings.
  const placed = (some) => some.map((r) => ({ ...r, x: byEvent ? r.event ?? eventAt(r.time) : r.time }));
  const eventAt = (t) => {
    const after = readings.findIndex((r) => r.time >= t), b = readings[after < 0 ? readings.length - 1 : after], a = readings[after - 1];
    return !b ? 0 : !a || b.time <= a.time || after < 0 ? b.event : a.event + (b.event - a.event) * (t - a.time) / (b.time - a.time);
  };
  const seen = (some, end) => span ? some.filter((r) => r.time >= end - span) : some;
  const within = (t, [first, last]) => t >= first && t <= last;
  const inView = (u, t) => within(t, [u.scales.x.min, u.scales.x.max]);
  const wholeTime = () => {
    const ends = [drawn.arrival, drawn.time].flatMap((some) => some.length ? [some[0].x, some[some.length - 1].x] : []);
    return [Math.min(...ends), Math.max(...ends)];
  };
  const shownTimes = () => zoom || (drawn.time.length ? wholeTime() : [-Infinity, Infinity]);
  // With a place of its own for every time without events, at which there is nothing: no line is drawn across.
  const parted = (from) => {
    const after = new Set(byEvent ? [] : gaps(from.map((r) => r.x)));
    return from.flatMap((r, i) => after.has(i) ? [r, { time: (r.x + from[i + 1].x) / 2, x: (r.x + from[i + 1].x) / 2, nothing: true }] : [r]);
  };
  const column = (from, key) => from.map((r) => r.no_estimate && key !== "x" ? null : r[key] ?? null);
  // The same in all charts. One point, or none, has a neighbourhood all the same.
  const times = (u) => {
    if (zoom) return zoom;
    if (!u.data[0].length) return [Date.now() / 1000 - 600, Date.now() / 1000];
    const [low, high] = wholeTime();
    return !byEvent && high - low < 10 ? [low - 300, high + 300] : [low - 0.01 * (high - low), high + 0.01 * (high - low)];
  };

  function untold(u, shown) { // times without an estimate
    const { ctx, bbox } = u, edge = (i, j) => u.valToPos((shown[i].x + (shown[j] || shown[i]).x) / 2, "x", true);
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.fillStyle = colour("inconclusive-soft");
    for (let i = 0; i < shown.length; i++) {
      if (!shown[i].no_estimate) continue;
      let j = i;
      while (j + 1 < shown.length && shown[j + 1].no_estimate) j++;
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
    for (const alarm of placed(alarms)) {
      if (!inView(u, alarm.x)) continue;
      const x = u.valToPos(alarm.x, "x", true);
      ctx.strokeStyle = colour({ raised: "breached", "no estimate": "inconclusive" }[alarm.kind] || "met");
      ctx.setLineDash(["raised", "no estimate"].includes(alarm.kind) ? [] : [5 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    ctx.strokeStyle = colour("muted");
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const r of ended()) {
      if (!inView(u, r.x)) continue;
      const x = u.valToPos(r.x, "x", true);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    ctx.restore();
  }

  // Where the scores' own alarm ended and nothing was called cleared, since labels keep an alarm on.
  function ended() {
    const cleared = alarms.filter((a) => a.kind === "cleared").map((a) => a.event), read = drawn.arrival.filter((r) => !r.nothing);
    const told = (before, r) => cleared.some((event) => event > before.event && event <= r.event);
    return read.filter((r, i) => i > 0 && read[i - 1].alarm_by_scores && r.alarm && !r.alarm_by_scores && !told(read[i - 1], r));
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
    const { ctx, bbox } = u;
    ctx.save();
    const room = 8 * devicePixelRatio; // a dot at 100% is a whole one
    ctx.beginPath(); ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + room); ctx.clip();
    ctx.fillStyle = ctx.strokeStyle = colour("inconclusive");
    ctx.lineWidth = 1.25 * devicePixelRatio;
    for (const l of placed(labels)) {
      if (!inView(u, l.x)) continue;
      const x = u.valToPos(l.x, "x", true), y = u.valToPos(l.accuracy, "y", true);
      ctx.beginPath(); ctx.moveTo(x, u.valToPos(l.low, "y", true)); ctx.lineTo(x, u.valToPos(l.high, "y", true)); ctx.stroke();
      ctx.beginPath(); ctx.arc(x, y, Math.min(3 + Math.sqrt(l.n) / 3, 7) * devicePixelRatio, 0, 2 * Math.PI); ctx.fill();
    }
    ctx.restore();
  }

  function options(figure, order, { range, series, bands = [], values, splits, under, over }) {
    const font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: colour("muted"), font, grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 } };
    const place = $(".plot", figure);
    return {
      width: Math.max(place.clientWidth, 200), height: innerWidth < 600 ? 190 : 230,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, sync: { key: "time" }, bind: { dblclick: () => () => setZoom(null) } },
      scales: { x: { time: !byEvent, range: times }, y: { range } },
      axes: [{ ...axis, space: 70, values: byEvent ? (u, splits) => splits.map((v) => Number.isInteger(v) ? whole(v) : "") : uPlot_time }, { ...axis, size: 70, values, ...(splits ? { splits } : {}) }],
      series: [{}, ...series], bands,
      hooks: { drawClear: [(u) => untold(u, drawn[order]), under], draw: [over], setCursor: [(u) => readout(figure, drawn[order][u.cursor.idx])], setSelect: [chosen] },
    };
  }

  // What is dragged over is what is shown, in all charts, until somebody chooses otherwise: new readings do not take it back.
  function chosen(u) {
    const { left, width } = u.select;
    if (width < 8) return;
    const ends = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    setZoom(ends);
  }

  function setZoom(ends) {
    zoom = ends;
    $("#zoomed").hidden = !zoom;
    fill();
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

  function readout(figure, r) {
    const text = $(".now", figure);
    if (!text) return;
    text.textContent = r ? `${byEvent ? `event ${whole(r.event)}, ` : ""}${when(r.time)}: ${r.nothing ? "no events" : r.no_estimate ? `no estimate: ${r.no_estimate}` : figure.dataset.kind === "exceedance" ? chance(r[watches()])
      : figure.dataset.kind === "risk" ? `${amount(r.risk)} (${between(r.risk_low, r.risk_high, amount)})`
      : `${percent(r.accuracy)} (${between(r.accuracy_low, r.accuracy_high, percent)})`}` : "";
  }

  const caption = (figure, parts) => $("figcaption", figure).replaceChildren(
    ...parts.map(([name, text]) => { const s = made("span"); s.append(made("i", null, name), made("span", text)); return s; }), made("span", "", "now"));

  const lone = (u, series) => { // places of readings between two gaps, of which no line is drawn; and the newest, where its line goes straight up
    const x = u.data[0], upright = (i) => i === x.length - 1 && x[i] === x[i - 1];
    const found = u.data[series].flatMap((v, i, all) => v != null && (upright(i) || all[i - 1] == null && all[i + 1] == null) ? [i] : []);
    return found.length ? found : null;
  };

  function build() {
    plots.forEach((p) => p.destroy());
    plots = [];
    const line = (extra = {}) => ({ stroke: colour("accent"), width: 2, spanGaps: false, points: { show: (u) => u.data[0].length < 3, filter: lone, size: 7, fill: extra.stroke || colour("accent") }, ...extra });
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    const band = [{ series: [2, 3], fill: colour("band") }];
    const make = (id, kind, keys, given) => {
      const figure = $(`#${id}`), order = kind === "exceedance" && bundle.alarm ? "arrival" : "time";
      figure.dataset.kind = kind;
      const chart = new uPlot(options(figure, order, given), [[], ...keys.map(() => [])], $(".plot", figure));
      Object.assign(chart, { keys, order });
      plots.push(chart);
      return figure;
    };
    const ends = bundle.alarm ? [["alarm", "raised"], ["cleared", "cleared"], ["ended", "the scores’ own alarm ended, labels keep it on"], ["untold", "no estimate"]] : [["untold", "no estimate"]];
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
      series: [line(), hidden, hidden], bands: band, values: (u, v, axis, space, step) => ticks(v, step),
      under: (u) => hatched(u, forecast.low, forecast.high), over: (u) => { level(u, bundle.tolerable, "ink"); whiskers(u); marks(u); },
    });
    caption(second, [["", "expected"], ["band", `${confidence(bundle.confidence)} interval`], ...(bundle.tolerable == null ? [] : [["limit", `tolerable: ${amount(bundle.tolerable)}`]]),
      ...(bundle.forecast ? [["forecast", "forecast before release"]] : []), ...ends]);
    const third = make("figure-accuracy", "accuracy", ["accuracy", "accuracy_high", "accuracy_low"], {
      range: (u, low, high) => spread([low, high, ...placed(labels).filter((l) => within(l.x, shownTimes())).flatMap((l) => [l.low, l.high])], 0, 1),
      series: [line(), hidden, hidden], bands: band, values: (u, v, axis, space, step) => ticks(v.map((x) => 100 * x), 100 * step).map((x) => `${x}%`),
      under: () => {}, over: (u) => { whiskers(u); dots(u); marks(u); },
    });
    caption(third, [["", "expected"], ["band", `${confidence(bundle.confidence)} interval`], ["dot", "labelled afterwards, with interval"], ...ends]);
    fill();
  }

  function fill() {
    if (!plots.length) return;
    const arrival = byArrival(), end = arrival.length ? arrival[arrival.length - 1].time : 0;
    const order = crowded(seen(arrival, end));
    if (order !== byEvent) { byEvent = order; zoom = null; build(); return; }
    drawn = { arrival: parted(placed(seen(arrival, end))), time: parted(placed(seen(byEvent ? readings : byTime(), end))) };
    for (const chart of plots) {
      const of = drawn[chart.order];
      chart.setData([column(of, "x"), ...chart.keys.map((k) => column(of, k).map((v) => k.endsWith("log_odds") ? clipped(v) : v))]);
    }
    const shown = drawn.arrival;
    const there = { alarm: alarms.some((a) => a.kind === "raised"), cleared: alarms.some((a) => a.kind === "cleared"),
      ended: ended().length > 0, untold: shown.some((r) => r.no_estimate) || alarms.some((a) => a.kind === "no estimate"), dot: labels.length > 0, band: shown.length > 1 };
    for (const key of document.querySelectorAll("figcaption i")) if (key.className in there) key.parentNode.hidden = !there[key.className];
    const r = shown[shown.length - 1];
    put("#zone", byEvent ? "by number of the event: many have the same time" : r && !since1970(r.time) ? "" : `times are in ${zone(r ? r.time : Date.now() / 1000)}`);
    if (r) {
      $("#figure-exceedance .plot").setAttribute("aria-label", `Evidence for an alarm over time; now ${chance(r[watches()])}`);
      $("#figure-risk .plot").setAttribute("aria-label", `Risk over time; now ${amount(r.risk)} ${bundle.unit}`);
      $("#figure-accuracy .plot").setAttribute("aria-label", `Accuracy over time; now ${r.accuracy == null ? "unknown" : percent(r.accuracy)}`);
    }
  }

  return {
    build: (of) => { // a part that was chosen is one of its own stream
      if (of !== bundle) { bundle = of; setZoom(null); }
      build();
    },
    show: (said) => { ({ readings, alarms, labels } = said); fill(); },
    setSpan: (seconds) => { span = seconds; setZoom(null); },
  };
})();
