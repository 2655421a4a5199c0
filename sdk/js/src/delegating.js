// Hands an execution backend's work, or a part of it, to one peer of the author's choice.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { encode, METHODS, PROCESS_START, PROTOCOL_VERSION, readFrames, textOf } from "./wire.js";

const LONGEST_GRACE_MS = 2_147_483_647;
const DEFAULT_GRACE_MS = 10_000;
const DEFAULT_DRAIN_MS = 35_000;

export function delegateExecutionBackendV4(options) {
  const { transport, command, env, capabilities = [], shutdown_grace_ms: grace } = options;
  checkOptions(options);
  const open = transport ? () => transport : () => spawnPeer(command, env, grace ?? DEFAULT_GRACE_MS);
  const peer = new Peer(open, capabilities, options.drain_ms ?? DEFAULT_DRAIN_MS);
  const offered = [...METHODS].filter((name) => name !== "process/start" || capabilities.includes(PROCESS_START));
  return {
    capabilities: [...capabilities],
    initialize: (binding, context) => peer.initialize(binding, context),
    methods: Object.fromEntries(
      offered.map((name) => [name, (data, context) => peer.request(name, data, context)]),
    ),
    close: () => peer.close(),
  };
}

function checkOptions({ transport, command, env, shutdown_grace_ms: grace }) {
  if (transport) {
    if (command || env) throw new TypeError("transport: a peer is either started by a command, or attached.");
    if (grace !== undefined) throw new TypeError("shutdown_grace_ms: an attached transport is ended by its own close.");
    return;
  }
  const isCommand = Array.isArray(command) && command.every((word) => typeof word === "string") && command[0]?.trim();
  if (!isCommand) throw new TypeError("command: a program and its arguments are needed; none is chosen for you.");
  if (grace !== undefined && !(Number.isInteger(grace) && grace >= 1 && grace <= LONGEST_GRACE_MS)) {
    throw new RangeError(`shutdown_grace_ms: a whole number from 1 to ${LONGEST_GRACE_MS} is needed.`);
  }
}

function spawnPeer([program, ...words], env, graceMs) {
  const child = spawn(program, words, {
    env: env ?? process.env,
    stdio: ["pipe", "pipe", "inherit"],
    detached: true, // a group of its own, to be ended as a whole
  });
  const ended = new Promise((resolve) => child.once("exit", resolve).once("error", resolve));
  const close = async () => {
    child.stdin.end();
    child.stdout.resume();
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, graceMs, "late")));
    const outcome = await Promise.race([ended, late]);
    clearTimeout(timer);
    if (outcome !== "late") return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It ended just now.
    }
    await ended;
    throw new Error(
      `shutdown_incomplete: the peer did not end within ${graceMs} ms and was killed; what it looked after may remain.`,
    );
  };
  return { input: child.stdin, output: child.stdout, close, failed: ended };
}

class Peer {
  constructor(open, capabilities, drainMs) {
    Object.assign(this, { open, capabilities, drainMs });
    this.pending = new Map();
    this.count = 0;
    this.token = randomBytes(32).toString("hex");
  }

  async initialize(binding, context) {
    if (this.transport) throw new Error("protocol_violation: the peer was opened once; it is never replaced.");
    this.transport = this.open();
    this.emitProcess = context.emitProcess;
    const { input, output, failed } = this.transport;
    input.on("error", (error) => this.fail(error.message));
    failed?.then((how) => how instanceof Error && this.fail(`cannot start it: ${how.message}`));
    readFrames(
      output,
      (message) => this.take(message),
      (reason) => this.fail(reason),
    );
    try {
      const reply = await this.request("initialize", binding, context);
      this.check(binding, reply);
    } catch (error) {
      this.fail(textOf(error));
      throw error;
    }
    return binding.root;
  }

  check(binding, reply) {
    if (reply?.version !== PROTOCOL_VERSION) {
      throw new Error(`protocol_mismatch: the peer speaks version ${reply?.version}, not ${PROTOCOL_VERSION}.`);
    }
    if (reply.root !== binding.root) {
      throw new Error(`protocol_mismatch: the peer serves ${reply.root} instead of ${binding.root}.`);
    }
    const missing = this.capabilities.filter((name) => !reply.capabilities?.includes(name));
    if (missing.length) throw new Error(`protocol_mismatch: the peer does not offer ${missing.join(", ")}.`);
  }

  /** Ask, and wait for the end of it, also when it is cancelled meanwhile. */
  async request(method, data, context) {
    if (!this.transport || this.failure) {
      throw new Error(`worker_failure: nothing was sent of ${method}: ${this.failure ?? "the peer is not open"}.`);
    }
    const id = String(++this.count);
    const frame = encode({ token: this.token, id, method, data });
    let timer;
    const cancel = () => {
      this.send({ id, method: "cancel" });
      timer = setTimeout(() => this.fail(`a cancelled ${method} did not end in time`), this.drainMs);
    };
    try {
      return await new Promise((resolve, reject) => {
        this.pending.set(id, { method, context, resolve, reject });
        this.transport.input.write(frame);
        if (context.signal.aborted) cancel();
        else context.signal.addEventListener("abort", cancel, { once: true });
      });
    } finally {
      clearTimeout(timer);
      context.signal.removeEventListener("abort", cancel);
      this.pending.delete(id);
    }
  }

  take(message) {
    if (message.method === "process") return this.emitProcess(message.data);
    if (message.method === "tool") return this.callTool(message);
    const waiting = this.pending.get(message.id);
    if (message.error) waiting?.reject(new Error(message.error));
    else waiting?.resolve(message.data ?? null);
  }

  /** Pass a nested call to the very request of the host that it belongs to. */
  async callTool({ id, parent_id: parent, data }) {
    const waiting = this.pending.get(parent);
    let answer;
    try {
      if (!waiting) throw new Error("refused/parent_ended: the request that called this tool has ended.");
      answer = { id, data: await waiting.context.invokeTool(data) };
    } catch (error) {
      answer = { id, error: textOf(error) };
    }
    try {
      this.send({ id, method: "callback", data: answer });
    } catch (error) {
      this.send({ id, method: "callback", data: { id, error: textOf(error) } });
    }
  }

  send(message) {
    const frame = encode({ token: this.token, ...message });
    if (!this.failure && this.transport.input.writable) this.transport.input.write(frame);
  }

  /** Give the peer up for good: what is in flight fails, and it is closed at once. */
  fail(reason) {
    if (this.failure) return;
    this.failure = reason;
    for (const { method, reject } of this.pending.values()) {
      const code = method === "initialize" ? "worker_failure" : "outcome_unknown";
      reject(new Error(`${code}: the peer is gone while ${method} was in flight: ${reason}.`));
    }
    this.end();
  }

  end() {
    this.ending ??= Promise.resolve()
      .then(() => this.transport.close())
      .then(
        () => undefined,
        (error) => error,
      );
    return this.ending;
  }

  async close() {
    if (!this.transport) return;
    this.failure ??= "it was closed";
    const error = await this.end();
    if (error) throw error;
  }
}
