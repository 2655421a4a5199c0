/// <reference types="node" />
import type { Readable, Writable } from "node:stream";

/** What the first initialization fixes for good. */
export interface ExecutionBindingV4 {
  version: 4;
  root: string;
  session: string;
  identity?: string;
  environment?: Record<string, string>;
  require_existing_workspace?: boolean;
  remove_workspace_on_exit?: boolean;
}

/** One call of one tool; `arguments` is text that holds encoded JSON. */
export interface ToolCallV4 {
  name: string;
  arguments: string;
  id?: string;
  kind?: "function" | "tool_search";
  [key: string]: unknown;
}

export interface ContentPartV4 {
  type: "text" | "image" | "audio" | "file" | "resource" | "resource_link";
  text?: string;
  data?: string;
  mime_type?: string;
  uri?: string;
  name?: string;
  resource?: unknown;
  [key: string]: unknown;
}

export interface ToolResultV4 {
  content?: ContentPartV4[];
  structured_content?: unknown;
  meta?: unknown;
  is_error?: boolean;
}

export type PermissionModeV4 = "" | "standard" | "read_only" | "unconfined";

export interface ExecutionToolRequestV4 {
  call: ToolCallV4;
  actor: string;
  permission_mode?: PermissionModeV4;
  git_attribution_enabled?: boolean;
}

/** A program that calls tools; a runner that ignores `result_view` must not claim success. */
export interface ExecutionProgramRequestV4 {
  program: {
    code: string;
    tools?: { name: string; description: string; input_schema: unknown }[];
    result_view?: string;
  };
  actor: string;
  /** Milliseconds; 0 means no deadline. */
  timeout_ms?: number;
  permission_mode?: PermissionModeV4;
  git_attribution_enabled?: boolean;
}

export interface ExecutionProgramResultV4 {
  Logs: string[] | null;
  Value: unknown;
  Error: string;
  Media: ContentPartV4[] | null;
  CallSummary?: string;
}

/** The record of one process; `root_thread_id` is the session of the binding. */
export interface ExecutionProcessV4 {
  id: string;
  operation_id?: string;
  owner_kind: "main_agent" | "subagent";
  owner_id: string;
  root_thread_id?: string;
  lifecycle: "session" | "managed";
  completion_mode?: "resume" | "detached";
  status: "starting" | "running" | "stopping" | "stopped" | "failed";
  pid: number;
  pgid: number;
  log_path: string;
  command: string;
  cwd: string;
  started_at: string;
  updated_at: string;
  stopped_at: string;
  /** Left out when it is 0; -1 is unknown, or not ended. */
  exit_code?: number;
  last_error?: string;
  terminal_cause?: "natural_exit" | "requested_stop";
  [key: string]: unknown;
}

export interface ProcessStartRequestV4 {
  operation_id: string;
  command: string;
  actor: string;
  cwd?: string;
  permission_mode?: PermissionModeV4;
  lifecycle?: "session" | "managed";
  completion_mode?: "resume" | "detached";
  tty?: boolean;
  environment?: Record<string, string>;
}

/** Durations are nanoseconds; no offset means the newest bytes. */
export interface ProcessReadRequestV4 {
  id: string;
  options?: { MaxBytes?: number; OffsetBytes?: number | null; Wait?: number; MinDwell?: number };
}

export interface ProcessOutputV4 {
  Process: ExecutionProcessV4;
  Output: string;
  Truncated: boolean;
  StartOffset: number;
  EndOffset: number;
  TotalBytes: number;
  TimedOut: boolean;
  Duration: number;
}

export interface ProcessEventV4 {
  Type: "started" | "updated" | "failed" | "stopped" | "cleaned_up" | "recheck_due";
  Cause: "" | "natural_exit" | "requested_stop";
  Process: ExecutionProcessV4;
}

export interface ExecutionContextV4 {
  /** Ends with its own request; the terminal reply waits until the handler has returned. */
  readonly signal: AbortSignal;
  /** Ends with the connection, after every handler and before `close`. */
  readonly lifetimeSignal: AbortSignal;
  readonly binding: ExecutionBindingV4;
  /** Have the host run a tool, only while the own request lives. */
  invokeTool(call: ToolCallV4): Promise<ToolResultV4>;
  /** Publish a process event on the same connection, also after the request. */
  emitProcess(event: ProcessEventV4): void;
}

type Handler<Request, Reply> = (request: Request, context: ExecutionContextV4) => Reply | Promise<Reply>;
type OfProcess<Extra = unknown> = Handler<{ id: string } & Extra, ExecutionProcessV4>;

export interface ExecutionMethodsV4 {
  execute?: Handler<ExecutionToolRequestV4, ToolResultV4>;
  run_code?: Handler<ExecutionProgramRequestV4, ExecutionProgramResultV4>;
  "export/read"?: Handler<{ token: string; offset: number }, { data: string; eof: boolean }>;
  "export/close"?: Handler<{ token: string }, Record<string, never>>;
  "process/start"?: Handler<ProcessStartRequestV4, ExecutionProcessV4>;
  "process/list"?: Handler<null, ExecutionProcessV4[]>;
  "process/get"?: OfProcess;
  "process/read"?: Handler<ProcessReadRequestV4, ProcessOutputV4>;
  "process/write"?: OfProcess<{ input: string }>;
  "process/resize"?: OfProcess<{ cols: number; rows: number }>;
  "process/stop"?: OfProcess<{ force?: boolean }>;
  "process/input_available"?: Handler<{ id: string }, boolean>;
  "process/completion_pending"?: Handler<{ id: string }, boolean>;
  "process/completion_delivered"?: OfProcess<{ consumer: string }>;
  "process/completion_mode"?: OfProcess<{ mode: "resume" | "detached" }>;
  "process/recheck"?: OfProcess<{ minutes: number }>;
  "process/recheck_delivered"?: OfProcess;
  "process/cleanup"?: Handler<null, { Cleaned: ExecutionProcessV4[] | null }>;
}

export interface ExecutionBackendV4 {
  /** Return the root that is served, or nothing for the one of the binding. */
  initialize(binding: ExecutionBindingV4, context: ExecutionContextV4): string | void | Promise<string | void>;
  methods: ExecutionMethodsV4;
  /** Runs once, after every handler, also after a failed initialization. */
  close?(): void | Promise<void>;
  /** `process.start.v1` needs `process/start`, `process/list` and `close`. */
  capabilities?: string[];
}

/** Serve the backend until the host is gone, then close it; rejects when the close fails. */
export function runExecutionBackendV4(
  backend: ExecutionBackendV4,
  streams?: { input?: Readable; output?: Writable },
): Promise<void>;

export interface AttachedTransportV4 {
  /** What the peer reads. */
  input: Writable;
  /** What the peer writes. */
  output: Readable;
  /** Owns the physical end. */
  close(): void | Promise<void>;
}

interface PeerOptions {
  /** Promised to the host and demanded of the peer. */
  capabilities?: string[];
  /** For a cancelled call to end at the peer; 35 000 by default. */
  drain_ms?: number;
}

export type DelegateOptionsV4 =
  | (PeerOptions & {
      command: string[];
      /** All variables of the peer; those of this program by default. */
      env?: Record<string, string>;
      /** 1 to 2 147 483 647; 10 000 by default. */
      shutdown_grace_ms?: number;
      transport?: never;
    })
  | (PeerOptions & {
      transport: AttachedTransportV4;
      command?: never;
      env?: never;
      shutdown_grace_ms?: never;
    });

/** A backend that hands everything to one peer; spread it, and change parts of one world. */
export function delegateExecutionBackendV4(
  options: DelegateOptionsV4,
): ExecutionBackendV4 & { methods: Required<ExecutionMethodsV4>; close(): Promise<void> };
