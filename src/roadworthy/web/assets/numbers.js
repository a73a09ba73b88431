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
  const amount = (v) => {
    if (v == null) return "–";
    const size = Math.abs(v), digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size === 0 ? 0 : 3;
    return v.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
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
  return { gaps, logit, percent, point, chance, threshold, amount, whole, when, utc, clock, iso, zone, since1970, between, spread };
})();
