// An execution backend in plain Node.js, without a line of anybody else's code: the wire is the
// contract. It reads, writes and lists files, and runs background processes with records that
// survive it. It cannot confine a command, so it refuses commands in every confined mode. It is an
// example that trusts its user and no production sandbox.

import { spawn } from "node:child_process";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const MAX_FRAME_BYTES = 16 * 1024 * 1024;
const MIN_TOKEN_CHARACTERS = 32;
const MAX_TEXT_BYTES = 512 * 1024;
const STOP_GRACE_MS = 2000;
const DRAIN_MS = 2000; // after a process's exit, for output that its offspring holds open
const ZERO_TIME = "0001-01-01T00:00:00Z";
const MODES = new Set(["", "standard", "read_only", "unconfined"]);

// ---------------------------------------------------------------- the provider

class Failure extends Error {
  constructor(code, sentence) {
    super(`${code}: ${sentence}`);
  }
}

const now = () => new Date().toISOString();
const isTerminal = (record) => record.status === "stopped" || record.status === "failed";
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const isInside = (folder, file) => file === folder || file.startsWith(folder.replace(/\/?$/, "/"));

class Workspace {
  constructor(binding) {
    this.asked = path.resolve(binding.root);
    if (!fs.existsSync(this.asked)) {
      if (binding.require_existing_workspace) {
        throw new Failure("retained_state_missing", `the workspace ${this.asked} is gone.`);
      }
      fs.mkdirSync(this.asked, { recursive: true, mode: 0o700 });
    }
    this.root = fs.realpathSync(this.asked);
  }

  // The real path of what is meant: a link that leads out is refused, except in unconfined mode.
  resolve(name, mode) {
    if (typeof name !== "string" || name.includes("\0")) {
      throw new Failure("invalid_arguments", "path: a text without NUL is needed.");
    }
    let standing = path.resolve(this.root, isInside(this.asked, name) ? path.relative(this.asked, name) : name);
    const missing = [];
    while (!fs.existsSync(standing) && !isLink(standing)) {
      missing.unshift(path.basename(standing));
      standing = path.dirname(standing);
    }
    let real;
    try {
      real = path.join(fs.realpathSync(standing), ...missing);
    } catch {
      throw new Failure("refused/boundary_denied", `${name} is a link that leads nowhere.`);
    }
    if (mode !== "unconfined" && !isInside(this.root, real)) {
      throw new Failure("refused/boundary_denied", `${name} leads out of the workspace.`);
    }
    return real;
  }

  display(real) {
    return isInside(this.root, real) ? path.relative(this.root, real) || "." : real;
  }
}

function isLink(file) {
  return fs.lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

const success = (text, structured) => ({
  content: [{ type: "text", text }],
  structured_content: structured,
});
const misfortune = (kind, text, facts) => ({
  ...success(text, { error_kind: kind, message: text, ...facts }),
  is_error: true,
});

class Backend {
  constructor(emit) {
    this.emit = emit;
    this.live = new Map(); // process id -> { child, woken: [] }
    this.records = new Map();
    this.left = new Set(); // groups of commands that have ended and left something running
    this.capabilities = ["process.start.v1"];
    this.tools = {
      read_file: this.readFile,
      write_file: this.writeFile,
      list_files: this.listFiles,
      bash: this.bash,
    };
    this.methods = {
      execute: (data, signal) => this.execute(data, signal),
      "process/start": (data) => this.start(data),
      "process/list": () => [...this.records.values()],
      "process/get": (data) => this.record(data.id),
      "process/read": (data, signal) => this.read(data, signal),
      "process/write": (data) => this.write(data),
      "process/stop": (data) => this.stop(this.record(data.id)),
      "process/input_available": (data) => this.live.has(this.record(data.id).id),
      "process/completion_pending": (data) => isPending(this.record(data.id)),
      "process/completion_delivered": (data) => this.delivered(data),
      "process/completion_mode": (data) => this.completionMode(data),
      "process/cleanup": () => this.cleanup(),
    };
  }

  initialize(binding) {
    this.binding = binding;
    this.workspace = new Workspace(binding);
    const state = process.env.MOORAGE_EXECUTION_STATE ?? process.env.WUU_EXECUTION_STATE;
    if (!state) throw new Failure("config_error", "no folder for records: EXECUTION_STATE is not set.");
    this.state = path.join(state, binding.session, "processes");
    fs.mkdirSync(this.state, { recursive: true, mode: 0o700 });
    this.recover();
    return binding.root;
  }

  async close() {
    await Promise.all([...this.records.values()].map((record) => this.stop(record)));
    for (const group of this.left) endFamily(group);
    if (this.binding?.remove_workspace_on_exit) fs.rmSync(this.workspace.root, { recursive: true });
  }

  // -------------------------------------------------------------- tools

  execute({ call, actor, permission_mode: mode = "" }, signal) {
    if (!actor) throw new Failure("invalid_arguments", "actor: somebody has to act.");
    if (!MODES.has(mode)) throw new Failure("invalid_arguments", `there is no mode ${mode}.`);
    const tool = Object.hasOwn(this.tools, call.name) ? this.tools[call.name] : undefined;
    if (!tool) throw new Failure("unknown_tool", `this backend has no tool ${call.name}.`);
    let asked;
    try {
      asked = JSON.parse(call.arguments ?? "{}");
    } catch (error) {
      throw new Failure("invalid_arguments", `${call.name}: ${error.message}`);
    }
    return tool.call(this, asked, mode, signal);
  }

  readFile({ path: name, offset, limit }, mode) {
    const file = this.workspace.resolve(name, mode);
    const shown = this.workspace.display(file);
    const status = fs.statSync(file, { throwIfNoEntry: false });
    if (!status?.isFile()) return misfortune("not_found", `there is no file ${shown}.`, { path: shown });
    if (status.size > MAX_TEXT_BYTES) {
      return misfortune("too_large", `${shown} has ${status.size} bytes.`, { path: shown });
    }
    const data = fs.readFileSync(file);
    const lines = data.toString("utf8").match(/[^\n]*\n|[^\n]+$/g) ?? [];
    const start = offset || 1;
    const chosen = lines.slice(start - 1, limit ? start - 1 + limit : undefined);
    const text = chosen.join("");
    return success(chosen.map((line, index) => `${start + index}|${line}`).join("") || "(empty file)", {
      action: "read",
      path: shown,
      text,
      content_sha256: sha256(data),
      start_line: start,
      num_lines: chosen.length,
      total_lines: lines.length,
      truncated: chosen.length < lines.length,
    });
  }

  writeFile({ path: name, content, create_only: createOnly }, mode) {
    if (mode === "read_only") {
      throw new Failure("refused/boundary_denied", "write_file would change a read-only workspace.");
    }
    if (typeof content !== "string") throw new Failure("invalid_arguments", "content: a text is needed.");
    const file = this.workspace.resolve(name, mode);
    const shown = this.workspace.display(file);
    const exists = fs.existsSync(file);
    if (exists && (createOnly || !fs.statSync(file).isFile())) {
      return misfortune("already_exists", `${shown} exists already.`, { path: shown });
    }
    const old = exists ? `sha256:${sha256(fs.readFileSync(file))}` : "";
    fs.mkdirSync(path.dirname(file), { recursive: true });
    const staged = `${file}.${randomBytes(6).toString("hex")}.tmp`;
    fs.writeFileSync(staged, content, { flag: "wx", mode: exists ? fs.statSync(file).mode : 0o644 });
    fs.renameSync(staged, file);
    const size = Buffer.byteLength(content);
    return success(`Wrote ${shown} (${size} bytes).`, {
      action: exists ? "overwrite" : "create",
      path: shown,
      old_file_sha: old,
      new_file_sha: `sha256:${sha256(content)}`,
      written_bytes: size,
    });
  }

  listFiles({ path: name = "." }, mode) {
    const folder = this.workspace.resolve(name, mode);
    const shown = this.workspace.display(folder);
    if (!fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
      return misfortune("not_a_folder", `${shown} is no folder.`, { path: shown });
    }
    const entries = fs
      .readdirSync(folder, { withFileTypes: true })
      .map((entry) => ({
        name: entry.name,
        path: shown === "." ? entry.name : `${shown}/${entry.name}`,
        is_dir: entry.isDirectory(),
        size: fs.lstatSync(path.join(folder, entry.name), { throwIfNoEntry: false })?.size ?? 0,
      }))
      .sort((one, other) => (one.name < other.name ? -1 : 1));
    const text = entries.map((entry) => entry.name + (entry.is_dir ? "/" : "")).join("\n");
    const page = { offset: 0, returned: entries.length, has_more: false, next: null, snapshot_token: "" };
    return success(text || "(empty folder)", {
      action: "list_files",
      path: shown,
      entries,
      total: entries.length,
      returned_count: entries.length,
      has_more: false,
      page,
    });
  }

  async bash(asked, mode, signal) {
    this.checkCommand(asked.command, mode);
    if (asked.run_in_background || (asked.action ?? "run") !== "run") {
      throw new Failure("invalid_arguments", "this backend starts background work by process/start only.");
    }
    const started = Date.now();
    const child = this.spawn(asked.command, asked.cwd, mode, {}, ["ignore", "pipe", "pipe"]);
    const output = { stdout: [], stderr: [] };
    for (const name of ["stdout", "stderr"]) child[name].on("data", (data) => output[name].push(data));
    let ended = "exited";
    const end = (how) => () => {
      ended = how;
      endFamily(child.pid);
    };
    const cancel = end("cancelled");
    signal.addEventListener("abort", cancel);
    if (signal.aborted) cancel();
    const timer = setTimeout(end("timed_out"), (asked.timeout_seconds ?? 300) * 1000);
    const [code, byWhat] = await closed(child);
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
    const leftRunning = family(child.pid).length; // it goes on, and ends with the session
    if (leftRunning) this.left.add(child.pid);
    const [stdout, stderr] = [Buffer.concat(output.stdout), Buffer.concat(output.stderr)];
    if (ended === "exited" && byWhat) ended = "signalled";
    const signalled = ended === "signalled" ? 128 + os.constants.signals[byWhat] : -1;
    const exitCode = ended === "exited" ? code : signalled;
    const kept = (data) => data.subarray(-MAX_TEXT_BYTES / 2).toString("utf8");
    const text = kept(stdout) + kept(stderr) || "(no output)";
    return success(`${text}${exitCode === 0 ? "" : `\n[${ended}, exit code ${exitCode}]`}`, {
      outcome: ended,
      exit_code: exitCode,
      stdout: kept(stdout),
      stderr: kept(stderr),
      stdout_bytes: stdout.length,
      stderr_bytes: stderr.length,
      stdout_truncated: stdout.length > MAX_TEXT_BYTES / 2,
      stderr_truncated: stderr.length > MAX_TEXT_BYTES / 2,
      duration_ms: Date.now() - started,
      left_running: leftRunning,
    });
  }

  // -------------------------------------------------------------- commands

  checkCommand(command, mode) {
    if (!MODES.has(mode)) throw new Failure("invalid_arguments", `there is no mode ${mode}.`);
    if (mode !== "unconfined") {
      throw new Failure(
        "refused/no_confinement",
        `this backend cannot confine commands, and the permission mode is ${mode || "standard"}. Nothing ran.`,
      );
    }
    if (typeof command !== "string" || !command.trim()) {
      throw new Failure("invalid_arguments", "The command is blank; nothing ran.");
    }
  }

  spawn(command, cwd, mode, variables, stdio) {
    // Not this program's variables: what the host forwarded, and what every program needs.
    const { PATH = "/usr/bin:/bin", HOME = this.workspace.root, LANG = "C.UTF-8" } = process.env;
    const env = { PATH, HOME, LANG, ...this.binding.environment, ...variables };
    const options = { cwd: this.folder(cwd, mode), env, stdio, detached: true };
    return spawn("/bin/sh", ["-c", command], options);
  }

  folder(cwd, mode) {
    const folder = this.workspace.resolve(cwd || ".", mode);
    if (fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return folder;
    throw new Failure("invalid_arguments", `cwd: ${cwd} is no folder; nothing ran.`);
  }

  async start(asked) {
    this.checkCommand(asked.command, asked.permission_mode ?? "");
    this.folder(asked.cwd, "unconfined"); // before anything is recorded
    if (asked.tty) throw new Failure("invalid_arguments", "this backend has no terminals; start with tty false.");
    const id = `proc-${randomBytes(4).toString("hex")}`;
    const session = this.binding.session;
    const record = {
      id,
      operation_id: asked.operation_id,
      owner_kind: asked.actor === session ? "main_agent" : "subagent",
      owner_id: asked.actor,
      root_thread_id: session,
      lifecycle: asked.lifecycle ?? "session",
      completion_mode: asked.completion_mode ?? "resume",
      status: "starting",
      pid: 0,
      pgid: 0,
      log_path: path.join(this.state, `${id}.log`),
      command: asked.command,
      cwd: asked.cwd || this.workspace.root,
      started_at: now(),
      updated_at: now(),
      stopped_at: ZERO_TIME,
      exit_code: -1,
      completion_delivered_at: ZERO_TIME,
      next_recheck_at: ZERO_TIME,
      pending_recheck_at: ZERO_TIME,
    };
    this.records.set(id, record);
    this.save(record); // before the effect: a start that is interrupted here is found again
    const log = fs.openSync(record.log_path, "ax", 0o600);
    const pipes = ["pipe", "pipe", "pipe"];
    const child = this.spawn(asked.command, asked.cwd, "unconfined", asked.environment ?? {}, pipes);
    const held = { child, woken: [], ended: null };
    this.live.set(id, held);
    child.stdin.on("error", () => {}); // a process that reads no more
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        fs.writeSync(log, data);
        this.wake(held);
      });
    }
    held.ended = closed(child).then(([code, signal]) => {
      fs.closeSync(log);
      this.live.delete(id);
      this.settle(record, code ?? -1, signal);
      this.wake(held);
    });
    await new Promise((resolve) => child.once("spawn", resolve).once("error", resolve));
    if (!isTerminal(record)) {
      Object.assign(record, { status: "running", pid: child.pid ?? 0, pgid: child.pid ?? 0 });
      record.process_start_time = startTime(record.pid);
      this.changed(record, "started", "");
    }
    return record;
  }

  settle(record, code, signal) {
    const requested = record.status === "stopping";
    const cause = requested ? "requested_stop" : "natural_exit";
    const failed = !requested && code !== 0;
    if (failed) record.last_error = signal ? `ended by ${signal}` : `exit code ${code}`;
    Object.assign(record, { status: failed ? "failed" : "stopped", stopped_at: now(), exit_code: code });
    if (code === 0) delete record.exit_code; // how the wire writes 0
    record.terminal_cause = cause;
    this.changed(record, record.status, cause);
  }

  async read({ id, options = {} }, signal) {
    const began = process.hrtime.bigint();
    const record = this.record(id);
    const offset = options.OffsetBytes ?? null;
    const most = options.MaxBytes > 0 ? options.MaxBytes : 32768;
    const size = () => fs.statSync(record.log_path, { throwIfNoEntry: false })?.size ?? 0;
    let timedOut = false;
    if (options.Wait > 0 && offset !== null) {
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(options.Wait / 1e6))]);
      while (size() <= offset && this.live.has(id) && !deadline.aborted) {
        await this.news(this.live.get(id), deadline);
      }
      timedOut = size() <= offset && !isTerminal(record);
    }
    const total = size();
    const start = offset === null ? Math.max(0, total - most) : Math.min(Math.max(0, offset), total);
    let window = Buffer.alloc(Math.min(most, total - start));
    if (window.length) {
      const log = fs.openSync(record.log_path);
      fs.readSync(log, window, 0, window.length, start);
      fs.closeSync(log);
    }
    // The rest of a character that is cut in two comes with the next window.
    if (start + window.length < total || !isTerminal(record)) window = wholeCharacters(window);
    const end = start + window.length;
    return {
      Process: record,
      Output: window.toString("utf8"),
      Truncated: offset === null ? start > 0 : end < total,
      StartOffset: start,
      EndOffset: end,
      TotalBytes: total,
      TimedOut: timedOut,
      Duration: Number(process.hrtime.bigint() - began),
    };
  }

  write({ id, input }) {
    const record = this.record(id);
    const held = this.live.get(id);
    if (!held) throw new Failure("invalid_arguments", `${id} takes no input any more.`);
    held.child.stdin.write(input);
    return record;
  }

  async stop(record) {
    const held = this.live.get(record.id);
    if (!held) return record;
    record.status = "stopping";
    this.save(record);
    signalGroup(held.child.pid, "SIGTERM");
    const timer = setTimeout(() => signalGroup(held.child.pid, "SIGKILL"), STOP_GRACE_MS);
    await held.ended;
    clearTimeout(timer);
    signalGroup(held.child.pid, "SIGKILL"); // the rest of its group, which SIGTERM did not end
    return record;
  }

  async cleanup() {
    const running = [...this.live.keys()].map((id) => this.records.get(id));
    const cleaned = await Promise.all(
      running.filter((record) => record.lifecycle === "session").map((record) => this.stop(record)),
    );
    return { Cleaned: cleaned.length ? cleaned : null };
  }

  delivered({ id, consumer }) {
    const record = this.record(id);
    if (!isTerminal(record) || record.terminal_cause !== "natural_exit") {
      throw new Failure("invalid_arguments", `${id} has not ended by itself.`);
    }
    if (!record.completion_consumed_by) {
      Object.assign(record, { completion_consumed_by: consumer.trim(), completion_delivered_at: now() });
      this.save(record);
    }
    return record;
  }

  completionMode({ id, mode }) {
    const record = this.record(id);
    if (isTerminal(record)) throw new Failure("invalid_arguments", `${id} has ended.`);
    record.completion_mode = mode;
    this.save(record);
    return record;
  }

  // -------------------------------------------------------------- records

  record(id) {
    const record = this.records.get(id);
    if (!record) throw new Failure("invalid_arguments", `no process of this session has the id ${id}.`);
    return record;
  }

  save(record) {
    record.updated_at = now();
    const file = path.join(this.state, `${record.id}.json`);
    fs.writeFileSync(`${file}.tmp`, JSON.stringify(record), { mode: 0o600 });
    fs.renameSync(`${file}.tmp`, file);
  }

  changed(record, type, cause) {
    this.save(record);
    this.emit({ Type: type, Cause: cause, Process: record });
  }

  // What an earlier run that was killed left behind: its records stay, its processes do not.
  recover() {
    for (const name of fs.readdirSync(this.state).filter((each) => each.endsWith(".json")).sort()) {
      const record = JSON.parse(fs.readFileSync(path.join(this.state, name), "utf8"));
      this.records.set(record.id, record);
      if (isTerminal(record)) continue;
      const isSame = record.process_start_time && startTime(record.pid) === record.process_start_time;
      if (isSame) signalGroup(record.pgid, "SIGKILL");
      const lost = "the backend ended before it; its end was not seen";
      Object.assign(record, { status: "failed", last_error: lost, stopped_at: now(), exit_code: -1 });
      this.save(record);
    }
    const sorted = [...this.records.values()].sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
    this.records = new Map(sorted.map((record) => [record.id, record]));
  }

  wake(held) {
    for (const resolve of held.woken.splice(0)) resolve();
  }

  news(held, signal) {
    return new Promise((resolve) => {
      held.woken.push(resolve);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

const isPending = (record) =>
  isTerminal(record) &&
  record.terminal_cause === "natural_exit" &&
  record.completion_mode !== "detached" &&
  !record.completion_consumed_by;

// The end of a child and of its output, which offspring may hold open for a while at most.
function closed(child) {
  return new Promise((resolve) => {
    child.once("exit", (...how) => {
      const timer = setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve(how);
      }, DRAIN_MS);
      child.once("close", () => {
        clearTimeout(timer);
        resolve(how);
      });
    });
    child.once("error", () => resolve([127, null]));
  });
}

function signalGroup(pid, signal) {
  try {
    if (pid > 1) process.kill(-pid, signal);
  } catch {
    // Nobody is left in it.
  }
}

// What is in the group of a process, or descends from something in it, and has not ended.
function family(root) {
  const all = fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const fields = fs.readFileSync(`/proc/${name}/stat`, "utf8").split(") ").pop().split(" ");
        return [{ pid: Number(name), state: fields[0], parent: Number(fields[1]), group: Number(fields[2]) }];
      } catch {
        return []; // It has just ended.
      }
    })
    .filter((each) => each.state !== "Z");
  const found = new Set([root]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const each of all) if (each.group === root || found.has(each.parent)) found.add(each.pid);
  }
  return all.map((each) => each.pid).filter((pid) => found.has(pid));
}

// Offspring in a group of its own is found by its parents, as long as these are there.
function endFamily(root) {
  for (const signal of ["SIGSTOP", "SIGKILL"]) {
    for (const pid of family(root)) {
      try {
        process.kill(pid, signal);
      } catch {
        // It has just ended.
      }
    }
  }
}

// Cut off the beginning of a character at the end, unless nothing else is there.
function wholeCharacters(data) {
  let start = data.length - 1;
  while (start > 0 && data.length - start < 4 && (data[start] & 0xc0) === 0x80) start -= 1;
  const first = data[start];
  const needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return start > 0 && data.length - start < needed ? data.subarray(0, start) : data;
}

// A pid alone is reused; with the boot and its start it names one process for good.
function startTime(pid) {
  try {
    const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop().split(" ");
    return `linux-v1:${boot}:${fields[19]}`;
  } catch {
    return "";
  }
}

// ---------------------------------------------------------------- the wire

class Connection {
  constructor() {
    this.backend = new Backend((event) => this.send({ id: "", method: "process", data: event }));
    this.inFlight = new Map();
    this.token = null;
    this.binding = null; // as text, when the initialization has succeeded
    this.reply = null;
    this.isDead = false;
    this.buffer = [];
    this.size = 0;
    process.stdin.on("data", (data) => this.take(data));
    process.stdin.on("end", () => this.end(this.size ? this.lastLine() : undefined));
    process.stdin.on("error", () => this.end());
    process.stdout.on("error", () => this.end());
  }

  take(data) {
    let start = 0;
    for (let at = data.indexOf(10); at >= 0 && !this.isEnding; at = data.indexOf(10, start)) {
      this.buffer.push(data.subarray(start, at));
      this.size += at - start;
      start = at + 1;
      const isTooLong = this.size + 1 > MAX_FRAME_BYTES;
      this.line(isTooLong ? "" : this.lastLine());
    }
    this.buffer.push(data.subarray(start));
    this.size += data.length - start;
    if (this.size >= MAX_FRAME_BYTES) this.end();
  }

  lastLine() {
    const line = Buffer.concat(this.buffer).toString("utf8");
    this.buffer = [];
    this.size = 0;
    return line;
  }

  line(text) {
    let asked;
    try {
      asked = JSON.parse(text);
      if (typeof asked?.id !== "string" || typeof asked?.method !== "string") throw new Error("keys");
    } catch {
      process.stderr.write("a malformed frame ends the connection\n");
      this.end();
      return;
    }
    try {
      this.route(asked);
    } catch (error) {
      // The reply to another request must not be taken for that of the one in flight.
      this.send({ id: this.inFlight.has(asked.id) ? "" : asked.id, error: error.message });
    }
  }

  route({ id, method, token, data }) {
    this.authorize(method, token);
    if (method === "cancel") return this.inFlight.get(id)?.abort();
    if (method === "callback") return;
    if (!id || this.inFlight.has(id)) throw new Failure("protocol_violation", `the id ${id} is empty or in use.`);
    if (method === "initialize") return this.initialize(id, token, data ?? {});
    if (!this.binding || this.isDead) throw new Failure("protocol_violation", "nothing runs before a successful initialize.");
    if (!Object.hasOwn(this.backend.methods, method)) {
      throw new Failure("protocol_mismatch", `this backend has no method ${method}.`);
    }
    return this.handle(id, this.backend.methods[method], data ?? {});
  }

  authorize(method, token) {
    const [given, pinned] = [Buffer.from(token ?? ""), Buffer.from(this.token ?? "")];
    const isRight = this.token
      ? given.length === pinned.length && timingSafeEqual(given, pinned)
      : method === "initialize" && given.length >= MIN_TOKEN_CHARACTERS;
    if (!isRight) throw new Failure("refused/token", `the token of ${method} is missing or wrong.`);
  }

  initialize(id, token, binding) {
    if (binding.version !== 4) throw new Failure("protocol_mismatch", `version 4 is spoken here, not ${binding.version}.`);
    const isComponent = (name) => typeof name === "string" && !["", ".", ".."].includes(name) && !/[\/\0]/.test(name);
    if (!path.isAbsolute(binding.root ?? "")) throw new Failure("invalid_arguments", "root: an absolute path is needed.");
    if (!isComponent(binding.session)) throw new Failure("invalid_arguments", "session: one path component is needed.");
    if (binding.identity && !isComponent(binding.identity)) {
      throw new Failure("invalid_arguments", "identity: one path component is needed.");
    }
    const text = canonical(binding);
    if (this.isDead) throw new Failure("protocol_violation", "the initialization failed; open a new connection.");
    if (this.binding && text !== this.binding) throw new Failure("invalid_arguments", "the binding cannot change.");
    if (!this.binding) {
      try {
        const root = this.backend.initialize(binding);
        this.reply = { version: 4, root, capabilities: this.backend.capabilities };
      } catch (error) {
        this.isDead = true;
        throw error;
      }
      this.token = token;
      this.binding = text;
    }
    this.send({ id, data: this.reply });
  }

  async handle(id, method, data) {
    const controller = new AbortController();
    this.inFlight.set(id, controller);
    let reply;
    try {
      const value = await method(data, controller.signal);
      reply = { id, data: value };
    } catch (error) {
      reply = { id, error: error.message || "failed" };
    }
    if (controller.signal.aborted) reply = { id, error: "cancelled: the request was cancelled; it has ended." };
    this.inFlight.delete(id);
    this.send(reply);
    if (this.isEnding && this.inFlight.size === 0) this.drained();
  }

  send(frame) {
    let line = `${JSON.stringify(frame)}\n`;
    if (Buffer.byteLength(line) > MAX_FRAME_BYTES) {
      line = `${JSON.stringify({ id: frame.id, error: "worker_failure: done, but the answer is too large." })}\n`;
    }
    if (!process.stdout.destroyed) process.stdout.write(line);
  }

  // Admit nothing more, cancel, let every handler end, then clean up, once.
  async end(last) {
    if (this.isEnding) return;
    if (last) this.line(last);
    if (this.isEnding) return;
    this.isEnding = true;
    process.stdin.destroy();
    const drained = new Promise((resolve) => (this.drained = resolve));
    for (const controller of this.inFlight.values()) controller.abort();
    if (this.inFlight.size) await drained;
    let code = 0;
    try {
      await this.backend.close();
    } catch (error) {
      process.stderr.write(`cleanup failed: ${error.message}\n`);
      code = 1;
    }
    process.exitCode = code;
    if (process.stdout.writableLength) process.stdout.once("drain", () => process.exit(code));
    else process.exit(code);
  }
}

const canonical = (binding) => {
  const { version, root, session, identity = "", environment = {} } = binding;
  const flags = [Boolean(binding.require_existing_workspace), Boolean(binding.remove_workspace_on_exit)];
  return JSON.stringify([version, root, session, identity, Object.entries(environment).sort(), ...flags]);
};

new Connection();
