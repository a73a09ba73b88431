"use strict";
// The live page: asks the service once a second, writes numbers as text, and hands readings to the charts.
(() => {
  const { $, put, made } = elements;
  const { percent, confidence, chance, amount, whole, when, utc, clock, iso, since1970, between } = numbers;
  const POLL_MS = 1000, UNSEEN_MS = 10000, KEPT = 5000;
  // A service that hangs takes a question and never answers; one that is busy does within a second or two. The whole history takes
  // longer on a slow line, and how it is doing it says at once.
  const ANSWER_MS = 5000, HISTORY_MS = 30000, HEALTH_MS = 1000;
  const QUIET_S = 3600; // without an event, and longer than the whole window took: nothing is known of the time since

  let bundle = null, replica = null, upto = -1, readings = [], shown = [], alarms = [], labels = [], failures = 0, last = null, asking = null, said = "";
  let token = sessionStorage.getItem("token") || "";
  const given = /[#&]token=([^&]+)/.exec(location.hash);
  if (given) {
    token = decodeURIComponent(given[1]);
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname);
  }

  async function ask(path, patience = ANSWER_MS) {
    const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store", signal: AbortSignal.timeout(patience) });
    if (answer.status === 401) { needToken(); throw new Error("token"); }
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
    return answer.json();
  }

  // What the service says while the thread that counts does not answer: it may wait for a locked file.
  async function ownTrouble() {
    try {
      const answer = await fetch("/health", { cache: "no-store", signal: AbortSignal.timeout(HEALTH_MS) });
      return answer.status === 503 ? (await answer.json()).status : "";
    } catch { return ""; }
  }

  function needToken() {
    $("#token-form").hidden = false;
    status("waiting", "…", "This service needs its token", token ? "The token is wrong." : "");
    feed("waiting", "waiting for its token");
    token = "";
    sessionStorage.removeItem("token");
  }

  function status(kind, mark, verdict, reason) {
    $("#status").dataset.status = kind;
    put("h1 .mark", mark);
    put("#verdict", verdict);
    put("#reason", reason);
    document.title = ({ alarm: "(!) ", lost: "(?) " }[kind] || "") + verdict + (bundle ? ` · ${called()}` : "");
  }

  // The window whose labels count: one whose own labels say that the risk is intolerable, else the one that is watched.
  const audit = (windows, watched) => [watched, ...windows].find((v) => v.audited && !v.audited.carried && bundle.tolerable != null && v.audited.risk_low > bundle.tolerable)
    || (watched.audited ? watched : null);

  // At an alarm: what a person on duty does, in this order.
  function nextSteps(live) {
    const [first] = ofNow(), since = first ? ` since event ${whole(first.event)}` : "", held = token ? " --token TOKEN" : "";
    return [
      `Protect users now: hand cases to a person, or take the system out of use, as your plan for this alarm says.`,
      `Look at the inputs${since}: has the sensor, the site, the format or the preparation changed?`,
      live.alarm_by_labels ? "Labels have confirmed it. Check the labelled cases first: they show what goes wrong."
        : ["Have a sample labelled, to confirm it or to clear it: ", `roadworthy monitor label-queue ${location.origin} -n 50${held}`, " lists the events to label; post the answers to /v1/labels."],
      "If the cause is removed, the alarm clears by itself. If the change is here to stay, assess again with it as a circumstance, and start the monitor from the new bundle.",
    ];
  }

  // A command that counts as one event, to be pasted into a shell.
  function firstEvent() {
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`, secret = token ? ' -H "Authorization: Bearer $ROADWORTHY_TOKEN"' : "";
    return `curl -X POST ${location.origin}/v1/events${secret} -d ${quoted(JSON.stringify(bundle.example))}`;
  }

  const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}${words.endsWith(".") ? "" : "."}`;

  // The alarms of this time: since all were cleared, the first of them began it.
  const ofNow = () => alarms.slice(alarms.findLastIndex((a) => a.kind === "cleared") + 1).filter((a) => a.kind === "raised");
  const sinceWhen = () => { const [first] = ofNow(); return first ? `Since ${when(first.time)}, event ${whole(first.event)}. ` : ""; };
  const labelsSaid = () => { const a = ofNow().findLast((v) => v.by_labels > 0); return a ? sentence(a.reason) : "By labels."; };
  const whatEndsIt = (live) => !live.alarm_by_labels ? "" : (ofNow().some((a) => !a.by_labels) && !live.alarm_by_scores ? " The scores’ own alarm has ended." : "") +
    (live.alarm_by_scores ? " The scores have raised one, too." : " Labels of later events clear it, or corrected ones.");

  const notYet = (w) => bundle.alarm && w.wanted && w.n + w.unscored < w.wanted ? ` No alarm is raised before ${whole(w.wanted)} events; so far there are ${whole(w.n + w.unscored)}.` : "";

  const refusedPosts = (live) => `${whole(live.posts_refused)} ${live.posts_refused === 1 ? "post" : "posts"} refused since the service started`;
  const silent = (live, w) => live.newest != null && since1970(live.newest) && live.now - live.newest > Math.max(QUIET_S, w.end - w.start);

  // What is said large, and why: kind, mark, words, reason.
  function judged(live, w, { told, labelled, proven }) {
    const limit = amount(bundle.tolerable), a = labelled && labelled.audited;
    const byLabels = a ? `By ${whole(a.labels)} labels${a.carried ? " of earlier events" : ""} the risk${labelled === w ? "" : ` (window: ${labelled.label})`} is ${amount(a.risk)} (${between(a.risk_low, a.risk_high, amount)}) ${bundle.unit}; ${limit} is tolerable.` : "";
    const scoresSay = a && labelled.risk != null ? ` By the scores alone it would be ${amount(labelled.risk)}.` : w.no_estimate ? ` By the scores there is no estimate: ${w.no_estimate}` : "";
    if (!live.total.accepted && (live.total.unscored || live.mostly_refused)) {
      return ["unknown", "?", "No estimate", w.no_estimate ? sentence(w.no_estimate) : `None of ${whole(live.total.unscored)} events has a score.`];
    } else if (!live.total.accepted) {
      return ["waiting", "…", "Waiting for events", live.posts_refused ? `${refusedPosts(live)}; the answers say why.` : ""];
    } else if (live.alarm) {
      return ["alarm", "!", "Alarm", sinceWhen() + (proven ? byLabels + scoresSay + whatEndsIt(live)
        : live.alarm_by_labels ? labelsSaid() + (told ? ` By the scores alone it would be ${amount(w.risk)} now.` : scoresSay) + whatEndsIt(live)
        : w.no_estimate ? `No estimate now: ${sentence(w.no_estimate)}` : `The risk is now ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable.`)];
    } else if (proven) {
      return ["unknown", "!", "Above the limit, by labels", byLabels + scoresSay];
    } else if (w.no_estimate) {
      return ["unknown", "?", "No estimate", sentence(w.no_estimate)];
    } else if (bundle.tolerable == null) {
      return ["unknown", "?", "No limit set", "The bundle has no tolerable risk, so no alarm is raised."];
    } else if (a && a.risk > bundle.tolerable) {
      return ["unknown", "?", "Above the limit by labels, not yet sure", byLabels + scoresSay];
    } else if (w.risk > bundle.tolerable) {
      return ["unknown", "?", "Above the limit, not yet sure", `The risk is expected to be ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable. The evidence does not suffice for an alarm.`];
    } else {
      return ["tolerable", "✓", "Tolerable", `The risk is expected to be ${amount(w.risk)} ${bundle.unit}; ${limit} is tolerable.${notYet(w)}`];
    }
  }

  // Events that are not counted may be anything: nothing is called tolerable then.
  function showVerdict(live, w, found) {
    const [kind, mark, verdict, reason] = judged(live, w, found), sure = mark === "!", beside = (words) => sure ? `${verdict}, and ${words}` : verdict;
    const since = silent(live, w) ? ` The newest event is from ${when(live.newest)}; nothing is known about the time since.` : "";
    $("#status").toggleAttribute("data-before", live.trouble !== "");
    if (live.trouble === "") return status(kind, mark, live.mostly_refused ? beside("most events are not counted") : verdict, live.mostly_refused ? reason : reason + since);
    const unwritten = "the state cannot be written", before = live.newest == null ? "" : ` The figures below are from before${sure ? "" : `: ${verdict}`}.`;
    const answered = `The last post was not counted: ${live.trouble}${before}${since}`;
    if (sure) status(kind, mark, beside(unwritten), `${reason} ${answered}`);
    else status("unknown", "?", `No estimate: ${unwritten}`, answered);
  }

  function showNow(live) {
    const w = live.windows.find((v) => v.window === bundle.watched) || {}, percentage = confidence(bundle.confidence);
    const told = live.total.accepted > 0 && !w.no_estimate, labelled = audit(live.windows, w), a = labelled && labelled.audited;
    const proven = a != null && bundle.tolerable != null && a.risk_low > bundle.tolerable;
    showVerdict(live, w, { told, labelled, proven });
    const any = live.event > 0 || live.mostly_refused; // before the first event there is nothing to tell
    $("#next").hidden = !live.alarm;
    if (live.alarm) list("#next ol", nextSteps(live));
    $("#first").hidden = any;
    document.querySelectorAll("[data-filled]").forEach((e) => { e.hidden = !any; });
    // Every figure, chart and tree of the page is of this moment.
    put("#now", live.event ? `Now: ${w.n + w.unscored === 1 ? "the last event" : `the last ${whole(w.n + w.unscored)} events`}${bundle.alarm ? ", which the alarm watches" : ""}, up to event ${whole(live.event)} of ${when(w.end)}` : "");
    // What cannot be relied on is not shown: a figure is believed, whatever stands above it.
    const missing = live.total.accepted + live.total.unscored ? "no estimate" : "";
    const figure = (name, from, as, unit = "", source = "") => {
      const v = from && from[name], known = v != null && (told || from === a);
      put(`#${name}`, known ? as(v) : "–");
      put(`#${name}-interval`, known ? `${source}${percentage}: ${between(from[`${name}_low`], from[`${name}_high`], as)}${unit}` : missing);
    };
    const inShort = (name, from, as) => `${as(from[name])} (${between(from[`${name}_low`], from[`${name}_high`], as)})`;
    // What the headline rests on is what stands large: where labels say that it is too much, the scores have not seen it.
    const labelsFirst = a != null && (live.alarm_by_labels || proven);
    const labelsName = a ? `by ${whole(a.labels)} labels${a.carried ? " of earlier events" : ""}${labelled === w ? "" : ` (${labelled.label})`}` : "";
    for (const [name, as, unit] of [["risk", amount, ` ${bundle.unit}`], ["accuracy", percent, ""]]) {
      figure(name, labelsFirst ? a : w, as, unit, labelsFirst ? `${labelsName}; ` : live.alarm_by_labels ? "by the scores alone; " : "");
      put(`#${name}-beside`, labelsFirst ? (told ? `by the scores: ${inShort(name, w, as)}` : "") : a ? `${labelsName}: ${inShort(name, a, as)}` : "");
    }
    figure("rate", w, percent);
    const rule = bundle.alarm ? live.alarm_condition : "no tolerable risk set", now = told ? chance(w.log_odds) : "";
    put("#exceedance", live.alarm_by_labels ? "Alarm by labels" : now || "–");
    put("#exceedance-rule", live.alarm_by_labels ? `by the scores: ${now || "no estimate"}; ${rule}` : rule);
    const t = live.total;
    put("#events", whole(live.event)); // as events are numbered: those without a score, too
    const aside = [["repeated", t.repeated], ["late", t.late], ["ahead", t.ahead]].filter(([, n]) => n > 0).map(([k, n]) => `${whole(n)} ${k} (not counted)`);
    if (live.posts_refused) aside.push(refusedPosts(live));
    const ofAll = t.unscored ? [`${whole(t.unscored)} of them without a score`] : [];
    put("#events-detail", [...ofAll, `${whole(w.n)} in the window, worth ${whole(w.effective_n)}`, ...aside].join("; "));
    rows("#windows tbody", live.windows, (v) => [
      [v.label + (v.window === bundle.watched ? " (watched)" : ""), ""], [whole(v.n), "num"], [whole(v.effective_n), "num"],
      ...(v.no_estimate || !v.n ? [["–", "num", v.no_estimate && any ? "no estimate" : ""], ["–", "num"], ["–", "num"], ["–", "num"]] : [
        [percent(v.accuracy), "num", between(v.accuracy_low, v.accuracy_high, percent)], [amount(v.risk), "num", between(v.risk_low, v.risk_high, amount)],
        [chance(v.log_odds), "num"], [percent(v.rate), "num", between(v.rate_low, v.rate_high, percent)]]),
      ...(v.audited ? [[percent(v.audited.accuracy), "num", between(v.audited.accuracy_low, v.audited.accuracy_high, percent)],
        [amount(v.audited.risk), "num", between(v.audited.risk_low, v.audited.risk_high, amount)]] : [["–", "num"], ["–", "num"]]),
    ]);
    const shared = live.windows.length ? live.windows[0].notes.filter((n) => live.windows.every((v) => v.notes.includes(n))) : [];
    const reasons = new Set(live.windows.map((v) => v.no_estimate)), common = reasons.size === 1 && live.windows.length > 1 ? [...reasons][0] : null;
    const own = live.windows.flatMap((v) => {
      const notes = v.notes.filter((n) => !shared.includes(n));
      return [...(v.no_estimate && !common ? [`no estimate: ${v.no_estimate}`] : []), ...notes].map((n) => `${v.label}: ${n}`);
    });
    // What holds for the bundle stands below, among what the numbers rest on.
    const below = [...bundle.notes, ...(bundle.alarm ? bundle.alarm.notes : [])];
    list("#remarks", [...(common && t.accepted + t.unscored ? [`no estimate: ${common}`] : []), ...shared, ...(t.accepted + t.unscored ? own : [])].filter((n) => !below.includes(n)));
  }

  function list(where, items) {
    const place = $(where), text = JSON.stringify(items);
    if (place.dataset.shown === text) return;
    place.dataset.shown = text;
    place.replaceChildren(...items.map((item) => {
      const entry = made("li"), parts = [item].flat(); // every other part is a command
      entry.append(...parts.map((part, i) => i % 2 ? made("code", part) : part));
      return entry;
    }));
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
        if (name === "kind") cell.append(made("span", content, `status ${content}`));
        else if (name === "time") cell.append(moment(content));
        else cell.textContent = content;
        if (below) cell.append(made("span", below, "sub"));
        row.append(cell);
      }
      return row;
    }));
  }

  function moment(t) { // where the reader is, and for everybody
    const e = made("time", when(t));
    e.dateTime = iso(t);
    e.title = utc(t);
    return e;
  }

  function showAlarms() {
    $("#alarms .empty").hidden = alarms.length > 0;
    $("#alarms .scroll").hidden = alarms.length === 0;
    rows("#alarms tbody", alarms.slice(-50).reverse(), (a) => [
      [a.time, "time", utc(a.time) === when(a.time) ? "" : utc(a.time)], [a.kind, "kind", a.reason || (a.delivered === false ? "not delivered yet" : "")], [whole(a.event), "num"],
      ...(a.log_odds == null ? [["–", "num"], [a.risk == null ? "–" : amount(a.risk), "num"]] : [[chance(a.log_odds), "num"], [amount(a.risk), "num"]]),
    ]);
  }

  // The tree is part of the same answer as the header, so that both are of one moment; unseen, none is asked for.
  const treeWidth = () => document.hidden ? "" : `&width=${Math.min(4000, Math.max(320, Math.round($("#tree img").clientWidth)))}`;

  function showTree(text) {
    const picture = $("#tree img");
    if (!text || picture.dataset.shown === text) return;
    picture.dataset.shown = text;
    picture.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
    picture.alt = new DOMParser().parseFromString((/<desc>.*?<\/desc>/.exec(text) || ["<desc/>"])[0], "text/xml").documentElement.textContent;
  }

  function called() { // the subject as people call it; a fingerprint is for machines
    return (bundle.made && bundle.made.subject) || bundle.subject;
  }

  function showBundle() {
    put("#subject", called());
    put("#risk-unit", bundle.unit);
    put("#bundle", `Bundle ${bundle.id}.`);
    put("#first code", firstEvent());
    put("#first-scores", bundle.scores.join(", "));
    const rule = bundle.alarm, forecast = bundle.forecast;
    const facts = [
      ["Calibrated on", bundle.kinds.map((k) => `${k.kind}: ${whole(k.rows)} rows, ${percent(k.accuracy)} right`).join("; ")],
      ["Scores", bundle.scores.join(", ")],
      ["Coverage on unseen shifts", bundle.coverage || "not measured"],
      ["Forecast before release", forecast ? `${amount(forecast.risk)} ${bundle.unit} (${between(forecast.low, forecast.high, amount)}), with ${percent(forecast.rate)} of inputs shifted` : "none"],
      ["Tolerable risk", bundle.tolerable == null ? "not set" : `${amount(bundle.tolerable)} ${bundle.unit}`],
      ["Alarm", rule ? `on windows of ${rule.label}, every ${whole(rule.stride)} events; false alarms without shift: ${rule.false_alarms}, at ${whole(rule.events_per_day)} events a day` : "none: no tolerable risk set"],
      ["Late and repeated", `events up to ${whole(bundle.lateness_s)} s older than the newest are counted; the last ${whole(bundle.id_horizon)} ids are recognised`],
      ["Notes", [...bundle.notes, ...(rule ? rule.notes : [])]],
    ].filter(([, v]) => v.length);
    $("#basis-facts").replaceChildren(...facts.map(([k, v]) => { const d = made("div"); d.append(made("dt", k), ...[v].flat().map((one) => made("dd", one))); return d; }));
    list("#blind", bundle.blind_to);
  }

  function feed(state, text, title = "") { $("#feed").dataset.state = state; $("#feed").title = title; put("#feed", text); }

  // What was said last is no longer what is: it stays to be read, and is not called tolerable any more.
  async function lost(error) {
    failures += 1;
    feed("lost", last ? `no answer since ${clock(last)}` : `no answer (${error.message})`, last ? utc(last) : "");
    if (failures < 2) return;
    if ($("#status").dataset.status !== "lost") said = last ? $("#verdict").textContent : "";
    const trouble = await ownTrouble(), then = last ? ` The figures below are from then: ${said}.` : "";
    if (trouble) return status("lost", "?", "No estimate", `The service says: ${trouble} It has sent no figures ${last ? `since ${when(last)}` : "yet"}.${then}`);
    status("lost", "?", "No answer", last ? `The service has not answered since ${when(last)}.${then}` : "The service has not answered yet; retrying.");
  }

  // The readings, and what the header shows: a chart ends where the page is.
  function withNow(live) {
    const w = live.windows.find((v) => v.window === bundle.watched), last = readings[readings.length - 1];
    shown = live.event > (last ? last.event : 0) && w && w.end != null ? [...readings, { ...w, time: w.end, event: live.event, alarm: live.alarm, alarm_by_scores: live.alarm_by_scores }] : readings;
    return shown;
  }

  async function once() {
    if (!$("#token-form").hidden && !token) return;
    try {
      if (!bundle) {
        bundle = await ask("/v1/bundle");
        $("#token-form").hidden = true;
        document.querySelectorAll("[data-later]").forEach((e) => { e.hidden = false; });
        showBundle();
        charts.build(bundle);
      }
      const live = await ask(`/v1/live?after_event=${upto}${treeWidth()}`, replica == null ? HISTORY_MS : ANSWER_MS);
      replica ??= live.replica;
      if (live.bundle !== bundle.id || live.replica !== replica || live.total.accepted + live.total.unscored < upto) { // another stream, or one set back
        bundle = replica = null; upto = -1; readings = []; failures = 0;
        return;
      }
      // Asked for by the number of their event: one whose clock is ahead is drawn there, and does not hold up the others.
      readings = readings.concat(live.history).slice(-KEPT);
      upto = live.history.reduce((most, r) => Math.max(most, r.event), upto);
      alarms = live.alarms;
      labels = live.labels;
      showNow(live);
      showAlarms();
      showTree(live.tree);
      if (!document.hidden) charts.show({ readings: withNow(live), alarms, labels });
      failures = 0;
      last = Date.now() / 1000;
      feed("live", `live, ${clock(last)}`, utc(last));
    } catch (error) {
      if (error.message !== "token") await lost(error);
    }
  }

  // One question at a time: two would bring the same readings twice.
  const step = () => asking ??= once().finally(() => { asking = null; });

  async function run() { // also where nobody looks, since the title of the page tells of an alarm
    for (;;) {
      await step();
      await new Promise((next) => setTimeout(next, document.hidden ? UNSEEN_MS : Math.min(POLL_MS * 2 ** Math.min(failures, 4), 15000)));
    }
  }

  $("#token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("#token").value;
    sessionStorage.setItem("token", token);
    step();
  });
  document.querySelectorAll(".choice button").forEach((button) => button.addEventListener("click", () => {
    document.querySelectorAll(".choice button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    charts.setSpan(Number(button.dataset.span));
  }));
  const again = () => { if (bundle) { charts.build(bundle); charts.show({ readings: shown, alarms, labels }); } };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(again, 150); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) step(); });
  run();
})();
