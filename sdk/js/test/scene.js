// A host written by hand, and streams in memory.

import { PassThrough } from "node:stream";
import { readFrames } from "../src/wire.js";

export const TOKEN = "0123456789abcdef".repeat(4);
export const BINDING = { version: 4, root: "/workspace", session: "conversation-1" };
export const EXECUTE = { call: { name: "read_file", arguments: "{}" }, actor: "agent" };

export const record = (operation_id) => ({
  id: "proc-1",
  operation_id,
  root_thread_id: BINDING.session,
  status: "running",
});

/** One side of a conversation: says whole frames, and hears them in order. */
export class Side {
  constructor(output, input) {
    this.output = output;
    this.heard = [];
    this.waiting = [];
    readFrames(
      input,
      (message) => this.put(message),
      () => this.put(null),
    );
  }

  put(message) {
    const waiter = this.waiting.shift();
    if (waiter) waiter(message);
    else this.heard.push(message);
  }

  /** The next frame, or null at the end. */
  hear() {
    if (this.heard.length) return Promise.resolve(this.heard.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  say(message) {
    this.output.write(`${JSON.stringify(message)}\n`);
  }

  ask(id, method, data) {
    this.say({ token: TOKEN, id, method, data });
  }

  async open(binding = BINDING) {
    this.ask("0", "initialize", binding);
    return this.hear();
  }
}

/** Streams between a backend and a hand-written host. */
export function hosting() {
  const [input, output] = [new PassThrough(), new PassThrough()];
  return { host: new Side(input, output), input, output };
}

/** A hand-written peer, and the transport to it. */
export function peering() {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const closes = [];
  const close = () => {
    closes.push("close");
    input.end();
    output.end();
  };
  return { peer: new Side(output, input), transport: { input, output, close }, closes };
}

export function signal() {
  let fire;
  const promise = new Promise((resolve) => (fire = resolve));
  return { promise, fire };
}
