"use strict";
// Numbers as a person reads them. No chance is told more exactly than it is known: beyond 0.1% and 99.9% it is "less" and "more".
const numbers = (() => {
  const logit = (p) => Math.log(p / (1 - p));
  const percent = (v, digits) => {
    if (v == null) return "–";
    const p = 100 * v;
    if (p > 0 && p < 0.1) return "<0.1%";
    if (p < 100 && p > 99.9) return ">99.9%";
    return p.toFixed(digits ?? (p > 99 || p < 1 ? 1 : 0)) + "%";
  };
  const share = (logOdds) => 1 / (1 + Math.exp(-logOdds));
  const chance = (logOdds) => logOdds == null ? "–" : logOdds > logit(0.999) ? ">99.9%" : logOdds < logit(0.001) ? "<0.1%" : percent(share(logOdds));
  const threshold = (logOdds) => { // with as many digits as tell it from 0 and from 1
    const p = 100 * share(logOdds);
    return p < 0.01 ? "<0.01%" : p > 99.99 ? ">99.99%" : p.toFixed(p >= 1 && p <= 99 ? 0 : 2).replace(/(\.\d)0$/, "$1") + "%";
  };
  // So many decimals, thousands apart. What lies halfway goes to the even digit, as it does in the terminal.
  const fixed = (v, digits) => {
    const scaled = v * 10 ** digits, below = Math.floor(scaled);
    const halfway = Number.isInteger(v * 2 ** (digits + 1)) && scaled - below === 0.5;
    const [units, ...rest] = (halfway ? (below + Math.abs(below % 2)) / 10 ** digits : v).toFixed(digits).split(".");
    return [units.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
  };
  // A cost as commands print it (`amount` in Python): in three or more digits, in two where it is tiny, so that no cost reads as another.
  const amount = (v) => {
    if (v == null) return "–";
    const size = Math.abs(v);
    return fixed(v, size >= 100 ? 0 : size >= 10 ? 1 : size < 1e-6 || size >= 0.00995 ? 3 : 1 - Math.floor(Math.log10(size)));
  };
  // Places of an axis, with as many decimals as tell each from the next.
  const ticks = (places, step) => {
    let digits = 0;
    while (digits < 12 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1;
    return places.map((v) => fixed(v, digits));
  };
  const whole = (v) => v == null ? "–" : Math.round(v).toLocaleString("en-GB");
  const since1970 = (t) => Math.abs(t) >= 1e8; // other times count from the start of something
  const UTC = { timeZone: "UTC" };
  const from = (t, otherwise) => t == null ? "–" : !since1970(t) ? `${Math.round(10 * t) / 10} s` : otherwise(new Date(1000 * t));
  // Every time of day names its zone: that of the reader, which changes with the season, or UTC.
  const when = (t, more = {}) => from(t, (d) => d.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long", ...more }));
  const utc = (t) => when(t, UTC);
  const clock = (t) => new Date(1000 * t).toLocaleTimeString("en-GB", { timeStyle: "long" });
  const iso = (t) => from(t, (d) => d.toISOString());
  const zone = (t) => { // "Europe/Berlin (CET)"; "UTC" is a name already
    const place = Intl.DateTimeFormat().resolvedOptions().timeZone, short = clock(t).replace(/^\S+ /, "");
    return place === short || !place ? short : `${place} (${short})`;
  };
  const between = (low, high, as) => low == null || high == null ? "" : `${as(low)} to ${as(high)}`;
  const point = (v) => percent(v, 1);
  function spread(values, floor, ceiling) { // the range of an axis that shows them all
    const all = values.filter((v) => v != null && isFinite(v));
    if (!all.length) return [0, 1];
    let low = Math.min(...all), high = Math.max(...all);
    const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 1e-6);
    low = floor == null ? low - room : Math.max(floor, low - room);
    high = ceiling == null ? high + room : Math.min(ceiling, high + room);
    return [low, high];
  }
  // Places behind which nothing was read for long: a minute at least, and ten times as long as is usual on either side. Old readings
  // are kept a minute or an hour apart, so that what is usual is a matter of the neighbourhood.
  function gaps(times, { least = 60, usual = 10, near = 5 } = {}) {
    const apart = times.slice(1).map((t, i) => t - times[i]);
    const middle = (some) => { const all = some.filter((d) => d > 0).sort((a, b) => a - b); return all.length ? all[all.length >> 1] : 0; };
    return apart.flatMap((d, i) => {
      if (d < least) return [];
      const beside = Math.max(middle(apart.slice(Math.max(0, i - near), i)), middle(apart.slice(i + 1, i + 1 + near)));
      return beside > 0 && d > usual * beside ? [i] : [];
    });
  }
  return { gaps, logit, percent, point, chance, threshold, amount, ticks, whole, when, utc, clock, iso, zone, since1970, between, spread };
})();
