/** What this server says of an error. */
export type Detail = { code?: string; message?: string; hint?: string; looked_through?: { flows: string[]; not_readable: string[] } | null };

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
    const body = (await answer.json().catch(() => ({}))) as { detail?: Detail | string };
    const detail = typeof body.detail === "object" ? body.detail : { message: body.detail };
    throw new Refused(answer.status, detail.message ?? answer.statusText, detail);
  }
  return (await answer.json()) as T;
}
