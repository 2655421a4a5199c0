export { runExecutionBackendV4 } from "./running.js";
export { delegateExecutionBackendV4 } from "./delegating.js";
