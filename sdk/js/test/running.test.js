import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { runExecutionBackendV4 } from "../src/index.js";
import { BINDING, EXECUTE, hosting, record, signal, TOKEN } from "./scene.js";

const nothing = () => undefined;

function slow(notes = []) {
  const started = signal();
  const mayEnd = signal();
  const execute = async (request, context) => {
    if (request.actor === "quick") return { meta: "quick" };
    started.fire();
    if (!context.signal.aborted) await once(context.signal, "abort");
    await mayEnd.promise;
    notes.push("drained");
    throw context.signal.reason;
  };
  return { execute, started, mayEnd };
}

test("handlers overlap, and a cancelled one is answered after it has ended", async () => {
  const { host, input, output } = hosting();
  const { execute, started, mayEnd } = slow();
  const run = runExecutionBackendV4({ initialize: nothing, methods: { execute } }, { input, output });
  await host.open();
  host.ask("1", "execute", EXECUTE);
  await started.promise;
  host.ask("1", "cancel");
  host.ask("2", "execute", { ...EXECUTE, actor: "quick" });
  assert.equal((await host.hear()).id, "2");
  mayEnd.fire();
  const ended = await host.hear();
  assert.equal(ended.id, "1");
  assert.match(ended.error, /^cancelled: /);
  input.end();
  await run;
});

for (const [name, ending] of [
  ["the end of input", (input) => input.end()],
  ["a malformed frame", (input) => input.write("no frame\n")],
  ["a blank line", (input) => input.write("\n")],
  ["an output that fails", (input, output) => output.destroy(new Error("broken"))],
]) {
  test(`${name} drains the handlers, ends the lifetime, and then closes once`, async () => {
    const { host, input, output } = hosting();
    const notes = [];
    const { execute, started, mayEnd } = slow(notes);
    const initialize = (binding, { lifetimeSignal }) => {
      lifetimeSignal.addEventListener("abort", () => notes.push("lifetime"));
    };
    const close = () => notes.push("close");
    const run = runExecutionBackendV4({ initialize, methods: { execute }, close }, { input, output });
    await host.open();
    host.ask("1", "execute", EXECUTE);
    await started.promise;
    mayEnd.fire();
    ending(input, output);
    await run;
    assert.deepEqual(notes, ["drained", "lifetime", "close"]);
  });
}

test("the token and the binding are pinned by the first success only", async () => {
  const { host, input, output } = hosting();
  let fails = true;
  const initialize = () => {
    if (fails) throw new Error("refused/policy: not now.");
  };
  const run = runExecutionBackendV4({ initialize, methods: {} }, { input, output });
  host.ask("1", "execute", EXECUTE);
  assert.match((await host.hear()).error, /before a successful initialize/);
  host.say({ token: "short", id: "2", method: "initialize", data: BINDING });
  assert.match((await host.hear()).error, /token/);
  assert.match((await host.open({ ...BINDING, version: 3 })).error, /version 4/);
  assert.match((await host.open({ ...BINDING, session: "a/b" })).error, /session/);
  assert.equal((await host.open()).error, "refused/policy: not now.");
  fails = false;
  assert.match((await host.open()).error, /open a new connection/);
  input.end();
  await run;
});

test("a binding that was made cannot change, and the same one is answered again", async () => {
  const { host, input, output } = hosting();
  const run = runExecutionBackendV4({ initialize: () => "/real", methods: {} }, { input, output });
  assert.deepEqual((await host.open()).data, { version: 4, root: "/real" });
  assert.deepEqual((await host.open()).data, { version: 4, root: "/real" });
  assert.match((await host.open({ ...BINDING, environment: { A: "1" } })).error, /cannot change/);
  host.say({ token: "f".repeat(64), id: "9", method: "execute", data: EXECUTE });
  assert.match((await host.hear()).error, /^refused\/token/);
  host.ask("8", "run_code", {});
  assert.match((await host.hear()).error, /no method run_code/);
  input.end();
  await run;
});

test("a promise to start processes needs its handlers and close", async () => {
  const methods = { "process/start": nothing, "process/list": nothing };
  for (const backend of [{ methods }, { methods: { "process/list": nothing }, close: nothing }]) {
    await assert.rejects(
      runExecutionBackendV4({ initialize: nothing, capabilities: ["process.start.v1"], ...backend }),
      /process\.start\.v1 needs/,
    );
  }
  await assert.rejects(runExecutionBackendV4({ initialize: nothing, methods: { dance: nothing } }), /no method dance/);
});

test("a start answered with another operation is an error, and events carry their number", async () => {
  const { host, input, output } = hosting();
  const start = (request, { emitProcess }) => {
    emitProcess({ Type: "started", Cause: "", Process: record("another") });
    return record("another");
  };
  const backend = { methods: { "process/start": start, "process/list": nothing }, close: nothing };
  const run = runExecutionBackendV4(
    { initialize: nothing, capabilities: ["process.start.v1"], ...backend },
    { input, output },
  );
  assert.deepEqual((await host.open()).data.capabilities, ["process.start.v1"]);
  host.ask("1", "process/start", { operation_id: "mine" });
  const event = await host.hear();
  assert.deepEqual([event.method, event.sequence], ["process", 1]);
  assert.match((await host.hear()).error, /operation another instead of mine/);
  input.end();
  await run;
});

test("tools are called for the own request only, and only while it lives", async () => {
  const { host, input, output } = hosting();
  const contexts = [];
  const execute = (request, context) => {
    contexts.push(context);
    return context.invokeTool({ name: "grep", arguments: "{}" });
  };
  const run = runExecutionBackendV4({ initialize: nothing, methods: { execute } }, { input, output });
  await host.open();
  host.ask("1", "execute", EXECUTE);
  const call = await host.hear();
  assert.deepEqual([call.method, call.parent_id], ["tool", "1"]);
  host.ask(call.id, "callback", { id: call.id, data: { meta: "nested" } });
  assert.deepEqual((await host.hear()).data, { meta: "nested" });
  await assert.rejects(contexts[0].invokeTool({ name: "grep", arguments: "{}" }), /has ended/);
  input.end();
  await run;
});

test("an answer that is too large is an error, and a frame that is too large ends it", async () => {
  const { host, input, output } = hosting();
  const execute = () => ({ meta: "x".repeat(16 * 1024 * 1024) });
  const run = runExecutionBackendV4({ initialize: nothing, methods: { execute } }, { input, output });
  await host.open();
  host.ask("1", "execute", EXECUTE);
  assert.match((await host.hear()).error, /its answer is lost/);
  input.write(Buffer.alloc(16 * 1024 * 1024, "x"));
  await run;
});

test("what close throws reaches the caller, and no reply holds the token", async () => {
  const { host, input, output } = hosting();
  const close = () => {
    throw new Error("a process would not end");
  };
  const run = runExecutionBackendV4({ initialize: nothing, methods: {}, close }, { input, output });
  const reply = await host.open();
  assert.ok(!JSON.stringify(reply).includes(TOKEN));
  input.end();
  await assert.rejects(run, /would not end/);
});
