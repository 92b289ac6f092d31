// What the page asks the server. The token is in a header only, and kept for this tab only.

const TOKEN = "aiostorm-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function pathOf(name, rest = "") {
  return `api/v1/topologies/${encodeURIComponent(name)}${rest}`;
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

async function checked(response) {
  if (response.ok) return response;
  let text = `${response.status} ${response.statusText}`;
  try {
    text = (await response.json()).error || text;
  } catch {
    // No JSON: the status says it.
  }
  throw new Refused(response.status, text);
}

export async function get(path, signal) {
  return (await checked(await fetch(path, { headers: headers(), signal, cache: "no-store" }))).json();
}

export async function send(method, path, body, more = {}) {
  const sent = { "Content-Type": "application/json", "X-Aiostorm": "1", ...more };
  const text = body === undefined ? undefined : JSON.stringify(body);
  return (await checked(await fetch(path, { method, headers: headers(sent), body: text }))).json();
}

// Server-sent events. (EventSource cannot send a token.) `onEvent(kind, data, id)`; returns when the stream ends.
export async function stream(path, lastId, onEvent, signal) {
  const more = lastId ? { "Last-Event-ID": String(lastId) } : {};
  const response = await checked(await fetch(path, { headers: headers(more), signal, cache: "no-store" }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = {};
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
      }
      if (fields.event) onEvent(fields.event, JSON.parse(fields.data || "{}"), Number(fields.id || 0));
    }
  }
}
