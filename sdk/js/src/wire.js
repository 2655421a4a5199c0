// Frames: one JSON object a line, none larger than 16 MiB with its newline.

export const PROTOCOL_VERSION = 4;
export const PROCESS_START = "process.start.v1";
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;
export const MIN_TOKEN_CHARACTERS = 32;

export const METHODS = new Set([
  "execute",
  "run_code",
  "export/read",
  "export/close",
  ...[
    ..."start list get read write resize stop cleanup input_available".split(" "),
    ..."completion_pending completion_delivered completion_mode".split(" "),
    ..."recheck recheck_delivered".split(" "),
  ].map((name) => `process/${name}`),
]);

/** Return the frame of a message, or throw when it is too large; then nothing may be written. */
export function encode(message) {
  const line = Buffer.from(`${JSON.stringify(message)}\n`);
  if (line.length > MAX_FRAME_BYTES) {
    throw new Error(`protocol_violation: a frame of ${line.length} bytes; the most is ${MAX_FRAME_BYTES}.`);
  }
  return line;
}

/** Cut a stream into messages; `onEnd(reason)` comes once, and nothing comes after it. */
export function readFrames(stream, onMessage, onEnd) {
  let parts = [];
  let size = 0;
  let isEnded = false;

  const end = (reason) => {
    if (isEnded) return;
    isEnded = true;
    onEnd(reason);
  };
  const line = (piece) => {
    parts.push(piece);
    size += piece.length;
    const text = size < MAX_FRAME_BYTES ? Buffer.concat(parts).toString("utf8") : "";
    parts = [];
    size = 0;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return end("a malformed frame");
    }
    if (typeof message !== "object" || message === null || Array.isArray(message)) {
      return end("a malformed frame");
    }
    onMessage(message);
  };
  stream.on("data", (data) => {
    let start = 0;
    for (let at = data.indexOf(10); at >= 0 && !isEnded; at = data.indexOf(10, start)) {
      line(data.subarray(start, at));
      start = at + 1;
    }
    if (isEnded) return;
    parts.push(data.subarray(start));
    size += data.length - start;
    if (size >= MAX_FRAME_BYTES) end("a frame that is too large");
  });
  stream.on("end", () => {
    if (size && !isEnded) line(Buffer.alloc(0));
    end("the end of input");
  });
  stream.on("error", (error) => end(error.message));
  stream.on("close", () => end("the end of input"));
}

/** Return the text of a failure; it is never empty. */
export const textOf = (error) => String(error?.message ?? error) || "worker_failure: no reason was given.";
