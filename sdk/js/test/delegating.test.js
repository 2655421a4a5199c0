import assert from "node:assert/strict";
import { test } from "node:test";
import { delegateExecutionBackendV4, runExecutionBackendV4 } from "../src/index.js";
import { BINDING, EXECUTE, hosting, peering, record } from "./scene.js";

const FULL = { ...BINDING, identity: "env-1", environment: { CI: "1" }, remove_workspace_on_exit: true };

/** A delegating backend between a hand-written host and a hand-written peer. */
async function scene({ capabilities = [], isOpen = true, ...options } = {}) {
  const { host, input, output } = hosting();
  const { peer, transport, closes } = peering();
  const backend = delegateExecutionBackendV4({ transport, capabilities, ...options });
  const run = runExecutionBackendV4(backend, { input, output });
  if (isOpen) {
    host.ask("0", "initialize", FULL);
    const asked = await peer.hear();
    peer.say({ id: asked.id, data: { version: 4, root: FULL.root, capabilities } });
    await host.hear();
  }
  const end = async () => {
    input.end();
    await run;
  };
  return { host, peer, closes, end };
}

test("the peer gets the whole binding and a token of its own", async () => {
  const { host, peer, end } = await scene({ capabilities: ["process.start.v1"], isOpen: false });
  host.ask("0", "initialize", FULL);
  const asked = await peer.hear();
  assert.deepEqual(asked.data, FULL);
  assert.equal(asked.token.length, 64);
  peer.say({ id: asked.id, data: { version: 4, root: FULL.root, capabilities: ["process.start.v1", "x"] } });
  assert.deepEqual((await host.hear()).data.capabilities, ["process.start.v1"]);
  await end();
});

for (const [name, reply] of [
  ["version", { version: 5, root: "/workspace", capabilities: ["process.start.v1"] }],
  ["root", { version: 4, root: "/other", capabilities: ["process.start.v1"] }],
  ["capabilities", { version: 4, root: "/workspace" }],
]) {
  test(`a peer with another ${name} fails the initialization and is closed at once`, async () => {
    const { host, peer, closes, end } = await scene({ capabilities: ["process.start.v1"], isOpen: false });
    host.ask("0", "initialize", FULL);
    peer.say({ id: (await peer.hear()).id, data: reply });
    assert.match((await host.hear()).error, /^protocol_mismatch: /);
    assert.equal(await peer.hear(), null);
    assert.deepEqual(closes, ["close"]);
    await end();
  });
}

test("requests, errors, nested calls and events pass through, each to its own request", async () => {
  const { host, peer, end } = await scene();
  host.ask("7", "execute", EXECUTE);
  const first = await peer.hear();
  host.ask("8", "execute", EXECUTE);
  const second = await peer.hear();
  assert.deepEqual(first.data, EXECUTE);
  peer.say({ id: "a", method: "tool", parent_id: second.id, data: { name: "grep" } });
  const call = await host.hear();
  assert.equal(call.parent_id, "8");
  host.ask(call.id, "callback", { id: call.id, data: { meta: "nested" } });
  const answered = await peer.hear();
  assert.deepEqual([answered.id, answered.data], ["a", { id: "a", data: { meta: "nested" } }]);
  peer.say({ id: "", method: "process", data: { Type: "started", Cause: "", Process: record("mine") } });
  assert.equal((await host.hear()).data.Process.operation_id, "mine");
  peer.say({ id: second.id, error: "refused/read_only: not here." });
  assert.deepEqual(await host.hear(), { id: "8", error: "refused/read_only: not here." });
  peer.say({ id: first.id, data: {} });
  assert.deepEqual(await host.hear(), { id: "7", data: {} });
  await end();
});

test("a cancelled call is answered when it has ended at the peer", async () => {
  const { host, peer, end } = await scene();
  host.ask("7", "execute", EXECUTE);
  const asked = await peer.hear();
  host.ask("7", "cancel");
  const cancelled = await peer.hear();
  assert.deepEqual([cancelled.id, cancelled.method], [asked.id, "cancel"]);
  host.ask("8", "execute", EXECUTE);
  peer.say({ id: (await peer.hear()).id, data: {} });
  assert.equal((await host.hear()).id, "8");
  peer.say({ id: asked.id, error: "cancelled: it has ended." });
  assert.match((await host.hear()).error, /^cancelled: /);
  await end();
});

test("a peer that does not end a cancelled call is closed, and never asked again", async () => {
  const { host, peer, closes, end } = await scene({ drain_ms: 1 });
  host.ask("7", "execute", EXECUTE);
  await peer.hear();
  host.ask("7", "cancel");
  assert.match((await host.hear()).error, /^cancelled: /);
  assert.equal((await peer.hear()).method, "cancel");
  assert.equal(await peer.hear(), null);
  host.ask("8", "execute", EXECUTE);
  assert.match((await host.hear()).error, /nothing was sent/);
  await end();
  assert.deepEqual(closes, ["close"]);
});

test("a peer that breaks leaves the call unknown, and is closed while the host stays", async () => {
  const { host, peer, closes, end } = await scene();
  host.ask("7", "execute", EXECUTE);
  await peer.hear();
  peer.output.write("Segmentation fault\n");
  assert.match((await host.hear()).error, /^outcome_unknown: .*malformed frame/);
  assert.equal(await peer.hear(), null);
  assert.deepEqual(closes, ["close"]);
  await end();
});

test("options that are impossible or contradict each other are refused", () => {
  const { transport } = peering();
  for (const grace of [0, -1, 2_147_483_648, 1.5, "7", true]) {
    assert.throws(() => delegateExecutionBackendV4({ command: ["peer"], shutdown_grace_ms: grace }), /^RangeError/);
  }
  assert.throws(() => delegateExecutionBackendV4({ transport, shutdown_grace_ms: 5 }), /shutdown_grace_ms/);
  assert.throws(() => delegateExecutionBackendV4({ transport, command: ["peer"] }), /transport/);
  for (const command of [undefined, [], [" "], "peer"]) {
    assert.throws(() => delegateExecutionBackendV4({ command }), /command/);
  }
});

test("process/start is offered only where it was asked for", () => {
  const { transport } = peering();
  assert.ok(!delegateExecutionBackendV4({ transport }).methods["process/start"]);
  assert.ok(delegateExecutionBackendV4({ transport, capabilities: ["process.start.v1"] }).methods["process/start"]);
});

const PEER = `
process.stdin.once("data", (data) => {
  const asked = JSON.parse(data);
  const names = Object.keys(process.env).filter((name) => name.startsWith("OF_")).join();
  console.log(JSON.stringify({ id: asked.id, data: { version: 4, root: asked.data.root, capabilities: [names] } }));
  if (process.argv.includes("stay")) setInterval(() => {}, 1000);
});
`;

test("a spawned peer that ignores the end of input is killed after its grace and reported", async () => {
  const { host, input, output } = hosting();
  const command = [process.execPath, "-e", PEER, "stay"];
  const run = runExecutionBackendV4(
    delegateExecutionBackendV4({ command, shutdown_grace_ms: 20 }),
    { input, output },
  );
  assert.equal((await host.open()).data.root, BINDING.root);
  input.end();
  await assert.rejects(run, /^Error: shutdown_incomplete: .* 20 ms/);
});

test("a spawned peer gets exactly the variables that are given", async () => {
  const { host, input, output } = hosting();
  const command = [process.execPath, "-e", PEER];
  process.env.OF_THE_ADAPTER = "1";
  const env = { OF_THE_PEER: "1" };
  const backend = delegateExecutionBackendV4({ command, env, capabilities: ["OF_THE_PEER"] });
  const run = runExecutionBackendV4(backend, { input, output });
  assert.deepEqual((await host.open()).data.capabilities, ["OF_THE_PEER"]);
  input.end();
  await run;
});

test("a missing program fails the initialization", async () => {
  const { host, input, output } = hosting();
  const run = runExecutionBackendV4(delegateExecutionBackendV4({ command: ["/nowhere/peer"] }), { input, output });
  assert.match((await host.open()).error, /worker_failure: /);
  input.end();
  await run;
});
