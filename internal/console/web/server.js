// What the page asks the server. The token stands in the session of the tab, and in no cookie, which other ports of the machine would get.

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
  if (!token) throw new Error("Open the address that mlkeeper console printed.");
}

// ask gets an answer, or has something done where there is a body.
export async function ask(path, body) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers: { Authorization: "Bearer " + token }, ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// open opens a stream that was closed.
export function open(stream) {
  if (stream?.closed) stream.begin();
}

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
      const answer = await fetch(this.path, { headers: { Authorization: "Bearer " + token }, signal });
      if (!answer.ok) throw Object.assign(new Error(await answer.text()), { final: answer.status === 401 });
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
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split("\n");
    rest = parts.pop();
    yield* parts.filter(Boolean);
  }
}
