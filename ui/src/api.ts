/** What this server says of an error. */
export type Detail = { code?: string; message?: string; hint?: string; looked_through?: { flows: string[]; not_readable: string[] } | null };

/** The same as the answer has it (RFC 9457): what happened stands in `detail`. */
type Problem = Omit<Detail, "message"> & { detail?: string };

/** Requests to this server: the host's cookie carries who asks. */
export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly detail: Detail = {}) {
    super(message);
  }
}

/** The address of something below Airflow's own root. */
export function address(path: string): string {
  const root = new URL(document.querySelector("base")?.href ?? "/", window.location.origin);
  return new URL(path, root).href;
}

/** Fetch JSON, or throw what was refused with the server's own words. */
export async function fetchJson<T>(path: string, signal: AbortSignal): Promise<T> {
  const answer = await fetch(address(path), { signal, credentials: "same-origin" });
  if (!answer.ok) {
    const body = (await answer.json().catch(() => ({}))) as Problem;
    const message = typeof body.detail === "string" ? body.detail : answer.statusText;
    throw new Refused(answer.status, message, { code: body.code, message, hint: body.hint, looked_through: body.looked_through });
  }
  return (await answer.json()) as T;
}
