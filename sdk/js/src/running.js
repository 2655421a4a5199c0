// Serves a backend to the host that started this program.

import { Console } from "node:console";
import { timingSafeEqual } from "node:crypto";
import {
  encode,
  METHODS,
  MIN_TOKEN_CHARACTERS,
  PROCESS_START,
  PROTOCOL_VERSION,
  readFrames,
  textOf,
} from "./wire.js";

const MAX_TOOL_CALLS = 128;
const BINDING_FIELDS = [
  ..."version root session identity environment".split(" "),
  ..."require_existing_workspace remove_workspace_on_exit".split(" "),
];

export async function runExecutionBackendV4(backend, streams = {}) {
  checkBackend(backend);
  if (!streams.output) globalThis.console = new Console(process.stderr);
  const input = streams.input ?? process.stdin;
  const output = streams.output ?? process.stdout;
  await new Connection(backend, input, output).run();
}

function checkBackend({ initialize, methods, close, capabilities = [] }) {
  if (typeof initialize !== "function") throw new TypeError("a backend needs initialize.");
  for (const name of Object.keys(methods)) {
    if (!METHODS.has(name)) throw new TypeError(`the protocol has no method ${name}.`);
  }
  if (!capabilities.includes(PROCESS_START)) return;
  const missing = ["process/start", "process/list"].filter((name) => !methods[name]);
  if (!close) missing.push("close");
  if (missing.length) throw new TypeError(`${PROCESS_START} needs ${missing.join(", ")}.`);
}

class Connection {
  constructor(backend, input, output) {
    Object.assign(this, { backend, input, output });
    this.lifetime = new AbortController();
    this.live = new Map(); // request id -> { controller, done }
    this.calls = new Map(); // callback id -> { parent, resolve, reject }
    this.counts = { call: 0, event: 0 };
    this.state = "opened";
    this.token = undefined;
    this.binding = undefined;
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  async run() {
    this.output.on("error", () => this.end());
    readFrames(
      this.input,
      (message) => this.take(message),
      () => this.end(),
    );
    await this.ended;
    this.isEnding = true;
    this.input.destroy();
    for (const { controller } of this.live.values()) controller.abort();
    await Promise.all([...this.live.values()].map(({ done }) => done));
    this.lifetime.abort();
    await this.backend.close?.();
  }

  // ---------------------------------------------------------------- in

  take(message) {
    if (this.isEnding) return;
    const { id, method } = message;
    if (typeof id !== "string" || typeof method !== "string") return this.end();
    try {
      this.authorize(message);
      this.route(message);
    } catch (error) {
      // The reply to another request must not be taken for that of the one in flight.
      const isOwn = !this.live.has(id) && method !== "cancel" && method !== "callback";
      this.send({ id: isOwn ? id : "", error: textOf(error) });
    }
  }

  authorize({ method, token = "" }) {
    const [given, pinned] = [Buffer.from(String(token)), Buffer.from(this.token ?? "")];
    const isRight = this.token
      ? given.length === pinned.length && timingSafeEqual(given, pinned)
      : given.length >= MIN_TOKEN_CHARACTERS;
    if (!isRight) throw new Error(`refused/token: the token of ${method} is missing or wrong.`);
  }

  route({ id, method, token, data }) {
    if (method === "cancel") return this.live.get(id)?.controller.abort();
    if (method === "callback") return this.settle(id, data);
    if (!id || this.live.has(id)) {
      throw new Error(`protocol_violation: the id ${JSON.stringify(id)} is empty or in use.`);
    }
    if (method === "initialize") return this.initialize(id, token, data ?? {});
    if (this.state === "dead") throw new Error("protocol_violation: the initialization failed; open a new connection.");
    if (this.state !== "ready") throw new Error("protocol_violation: nothing runs before a successful initialize.");
    if (!METHODS.has(method) || !this.backend.methods[method]) {
      throw new Error(`protocol_mismatch: this backend has no method ${method}.`);
    }
    return this.start(id, async (context) => {
      const value = await this.backend.methods[method](data ?? null, context);
      if (method === "process/start" && value?.operation_id !== data?.operation_id) {
        throw new Error(
          `worker_failure: process/start answered with operation ${value?.operation_id} instead of ${data?.operation_id}.`,
        );
      }
      return value ?? null;
    });
  }

  initialize(id, token, binding) {
    checkBinding(binding);
    const given = canonical(binding);
    if (this.state === "dead") throw new Error("protocol_violation: the initialization failed; open a new connection.");
    if (this.state === "ready") {
      if (given !== canonical(this.binding)) throw new Error("invalid_arguments: the binding cannot change.");
      return this.send({ id, data: this.reply });
    }
    if (this.state === "initializing") throw new Error("refused/initializing: another one is running.");
    this.state = "initializing";
    this.token = token; // what cancels this very request, and is forgotten when it fails
    this.binding = binding;
    return this.start(id, async (context) => {
      try {
        const root = (await this.backend.initialize(binding, context)) ?? binding.root;
        context.signal.throwIfAborted();
        this.reply = { version: PROTOCOL_VERSION, root };
        const { capabilities = [] } = this.backend;
        if (capabilities.length) this.reply.capabilities = capabilities;
        this.state = "ready";
        return this.reply;
      } catch (error) {
        this.state = "dead";
        this.token = undefined;
        throw error;
      }
    });
  }

  start(id, handler) {
    const controller = new AbortController();
    const done = this.serve(id, controller.signal, handler);
    this.live.set(id, { controller, done });
  }

  async serve(id, signal, handler) {
    await null; // after it is among the live ones
    let reply;
    try {
      reply = { id, data: await handler(this.context(id, signal)) };
    } catch (error) {
      const ended = "cancelled: the request was cancelled; its handler has ended.";
      reply = { id, error: signal.aborted ? ended : textOf(error) };
    }
    this.live.delete(id);
    for (const [callId, call] of this.calls) {
      if (call.signal === signal) this.settle(callId, { error: "refused/parent_ended: the request has ended." });
    }
    this.send(reply);
  }

  // ---------------------------------------------------------------- what handlers may use

  context(id, signal) {
    return {
      signal,
      lifetimeSignal: this.lifetime.signal,
      binding: this.binding,
      invokeTool: (call) => this.invokeTool(id, signal, call),
      emitProcess: (event) => this.emitProcess(event),
    };
  }

  invokeTool(parent, signal, call) {
    if (this.live.get(parent)?.controller.signal !== signal) {
      return Promise.reject(new Error("protocol_violation: the request that would call a tool has ended."));
    }
    const count = [...this.calls.values()].filter((each) => each.signal === signal).length;
    if (count >= MAX_TOOL_CALLS) return Promise.reject(new Error(`refused/busy: ${count} tool calls are running.`));
    const id = `tool-${++this.counts.call}`;
    return new Promise((resolve, reject) => {
      this.calls.set(id, { signal, resolve, reject });
      this.send({ id, parent_id: parent, method: "tool", data: call });
    });
  }

  settle(id, answer) {
    const call = this.calls.get(id);
    this.calls.delete(id);
    if (answer?.error) call?.reject(new Error(answer.error));
    else call?.resolve(answer?.data);
  }

  emitProcess(event) {
    const sequence = ++this.counts.event;
    if (this.state === "ready") this.send({ id: "", method: "process", data: event, sequence });
  }

  // ---------------------------------------------------------------- out

  send(message) {
    let frame;
    try {
      frame = encode(message);
    } catch (error) {
      if (message.method === "process") return;
      if (message.method === "tool") return this.settle(message.id, { error: textOf(error) });
      frame = encode({ id: message.id, error: `worker_failure: done, but its answer is lost: ${textOf(error)}` });
    }
    if (!this.output.writable) return this.end();
    this.output.write(frame, (error) => error && this.end());
  }
}

function checkBinding(binding) {
  if (binding.version !== PROTOCOL_VERSION) {
    throw new Error(`protocol_mismatch: version ${PROTOCOL_VERSION} is spoken here, not ${binding.version}.`);
  }
  if (typeof binding.root !== "string" || !binding.root.startsWith("/")) {
    throw new Error("invalid_arguments: root: an absolute path is needed.");
  }
  for (const field of ["session", "identity"]) {
    const name = binding[field] ?? "";
    if (field === "identity" && name === "") continue;
    if (typeof name !== "string" || ["", ".", ".."].includes(name) || /[/\0]/.test(name)) {
      throw new Error(`invalid_arguments: ${field}: one path component is needed.`);
    }
  }
}

const canonical = (binding) =>
  JSON.stringify(
    BINDING_FIELDS.map((field) =>
      field === "environment" ? Object.entries(binding.environment ?? {}).sort() : binding[field] || null,
    ),
  );
