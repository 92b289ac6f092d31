// Numbers as people read them. What is not known is a dash.

const NONE = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const count = (value) => (known(value) ? whole.format(value) : NONE);

export const compact = (value) => (known(value) ? short.format(value) : NONE);

export function rate(value) {
  if (!known(value)) return NONE;
  return `${value > 0 && value < 10 ? value.toFixed(1) : short.format(value)}/s`;
}

export const percent = (value) => (known(value) ? `${Math.round(value * 100)} %` : NONE);

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (size < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  if (size < 172800) return `${Number((seconds / 3600).toPrecision(3))} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// "2 ms / 9 ms": half took at most the first, 99 % at most the second.
export const latency = (found) => (found ? `${duration(found.p50_s)} / ${duration(found.p99_s)}` : NONE);

export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${Number(size.toPrecision(3))} ${units[unit]}`;
}

const two = (number) => String(number).padStart(2, "0");

export function clock(seconds) {
  if (!known(seconds) || seconds === 0) return NONE;
  const at = new Date(seconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function date(seconds) {
  if (!known(seconds) || seconds === 0) return NONE;
  const at = new Date(seconds * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(seconds)}`;
}
