// What the page asks the server. The token stands in the session of the tab, and in no cookie, which other ports of the machine would get.
import { element } from "./list.js";

let token = "";

// session gets the token, with the code in the address the first time.
export async function session() {
  const code = location.hash.slice(1);
  if (code && !code.startsWith("/")) {
    history.replaceState(null, "", location.pathname);
    const answer = await fetch("/api/session", { method: "POST", body: JSON.stringify({ code }) });
    if (answer.ok) sessionStorage.setItem("token", (await answer.json()).token);
    else if (!sessionStorage.getItem("token")) throw new Error(await answer.text());
  }
  token = sessionStorage.getItem("token") ?? "";
}

// login asks which cluster is shown. Where users bring tokens of their own and there is none yet, or none that is accepted, it asks for one.
export async function login(main) {
  for (;;) {
    try {
      return await ask("/api/about");
    } catch (e) {
      if (!e.bearer) throw e;
      token = await entered(main, token ? e.message : "");
      sessionStorage.setItem("token", token);
    }
  }
}

// entered is the token that somebody enters.
function entered(main, complaint) {
  const field = element("input", { type: "password", id: "token", autocomplete: "off", required: "required" });
  const form = element("form", { class: "bar" }, element("label", {}, "Bearer token of the cluster", field), element("button", {}, "Log in"));
  main.replaceChildren(element("h2", {}, "Log in"), element("p", {}, "The console has no rights of its own. It shows what you may see, with your token, such as kubectl create token prints."),
    ...(complaint ? [element("p", { class: "note", role: "alert" }, complaint)] : []), form);
  field.focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      resolve(field.value.trim());
    });
  });
}

function headers() {
  return token ? { Authorization: "Bearer " + token } : {};
}

// ask gets an answer, or has something done where there is a body.
export async function ask(path, body) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers: headers(), ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!answer.ok) throw Object.assign(new Error(await answer.text()), { bearer: answer.headers.has("WWW-Authenticate") });
  return answer.json();
}

// open opens a stream that was closed.
export function open(stream) {
  if (stream?.closed) stream.begin();
}

// silence is how long a stream may say nothing, in milliseconds; the server says every 15 seconds that it lives.
const silence = 45000;

// Stream reads lines of JSON as long as the page is seen, and begins again when the connection is lost.
export class Stream {
  constructor(path, handlers) {
    Object.assign(this, { path, handlers, wait: 1000 });
    this.begin();
  }

  begin() {
    this.closed = false;
    this.abort = new AbortController();
    this.run(this.abort.signal);
  }

  close() {
    this.closed = true;
    clearTimeout(this.again);
    this.abort.abort();
  }

  async run(signal) {
    try {
      const answer = await fetch(this.path, { headers: headers(), signal });
      if (answer.headers.has("WWW-Authenticate")) {
        // Nothing stays that was read with the token, and the page asks for another one.
        location.reload();
        return;
      }
      if (!answer.ok) throw Object.assign(new Error(await answer.text()), { final: [400, 401].includes(answer.status) });
      let first = true;
      for await (const line of lines(answer.body)) {
        const message = JSON.parse(line);
        if (message.error) throw new Error(message.error);
        // What was there before the connection was lost may be gone.
        if (first) this.handlers.reset();
        first = false;
        this.wait = 1000;
        this.handlers.state("");
        this.handlers.change(message.set ?? {}, message.removed ?? []);
      }
      throw new Error("the console ended the connection");
    } catch (e) {
      if (signal.aborted) return;
      this.abort.abort();
      if (e.final) {
        this.handlers.state(e.message);
        return;
      }
      this.handlers.state(`Not live: ${e.message}. Trying again.`);
      this.again = setTimeout(() => this.begin(), this.wait * (0.75 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, 30000);
    }
  }
}

async function* lines(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await within(silence, reader.read());
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split("\n");
    rest = parts.pop();
    yield* parts.filter(Boolean);
  }
}

// within is what a promise gives, unless that takes too long.
async function within(time, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("the console says nothing any more")), time); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
