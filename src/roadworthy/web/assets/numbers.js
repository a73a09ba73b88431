"use strict";
// Numbers as a person reads them, by the rules of `numbers.py`. No chance is told more exactly than it is known: beyond 0.1% and
// 99.9% it is "less" and "more".
const numbers = (() => {
  const logit = (p) => Math.log(p / (1 - p));
  // So many decimals, thousands apart; the shortest decimal that names the number is rounded half up. `shift`: 2 for percentages.
  const fixed = (v, digits, shift = 0) => {
    const [mantissa, power = 0] = String(Math.abs(v)).split("e"), scaled = Math.round(Number(`${mantissa}e${Number(power) + digits + shift}`));
    const [units, ...rest] = Number(`${scaled}e-${digits}`).toFixed(digits).split(".");
    return (v < 0 && scaled ? "−" : "") + [units.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
  };
  const percent = (v) => { // one decimal, more where one would read as none or all
    if (v == null) return "–";
    let digits = 1;
    const whole = () => v > 0 && v < 1 && [0, 100].includes(Number(fixed(v, digits, 2)));
    while (digits < 3 && whole()) digits += 1;
    return whole() ? (v < 0.5 ? "<0.001%" : ">99.999%") : `${fixed(v, digits, 2)}%`;
  };
  const confidence = (v) => `${Number((100 * v).toPrecision(4))}%`;
  const share = (logOdds) => 1 / (1 + Math.exp(-logOdds));
  const chance = (logOdds) => logOdds == null ? "–" : logOdds > logit(0.999) ? ">99.9%" : logOdds < logit(0.001) ? "<0.1%" : percent(share(logOdds));
  const threshold = (logOdds) => { // with as many digits as tell it from 0 and from 1
    const p = 100 * share(logOdds);
    return p < 0.01 ? "<0.01%" : p > 99.99 ? ">99.99%" : p.toFixed(p >= 1 && p <= 99 ? 0 : 2).replace(/(\.\d)0$/, "$1") + "%";
  };
  // A number in its own unit, such as a cost: three digits, at most three decimals, two digits where it is tiny.
  const amount = (v) => {
    if (v == null) return "–";
    const size = Math.abs(v), power = Math.floor(Math.log10(size));
    return fixed(v, size < 1e-6 ? 3 : size < 0.00995 ? 1 - power : Math.min(3, Math.max(0, 2 - power)));
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
  // Whether a line over time would be upright: readings of many events, which came far faster than all did on average. Old readings
  // are kept further apart, so that their number says nothing.
  function crowded(readings, { least = 10, faster = 50, part = 0.2 } = {}) {
    if (readings.length < 3) return false;
    const first = readings[0], last = readings[readings.length - 1], span = last.time - first.time, events = last.event - first.event;
    const steps = readings.slice(1).map((r, i) => [r.time - readings[i].time, r.event - readings[i].event]);
    const atOnce = steps.filter(([seconds, n]) => seconds * events * faster < span * n).reduce((sum, [, n]) => sum + n, 0);
    return span < least || atOnce > part * events;
  }
  return { crowded, gaps, logit, percent, confidence, chance, threshold, amount, ticks, whole, when, utc, clock, iso, zone, since1970, between, spread };
})();
