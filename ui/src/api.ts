/** Requests to this server: the host's cookie carries who asks. */
export class Refused extends Error {
  constructor(readonly status: number, message: string) {
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
    const body = (await answer.json().catch(() => ({}))) as { detail?: { message?: string } | string };
    const detail = typeof body.detail === "string" ? body.detail : body.detail?.message;
    throw new Refused(answer.status, detail ?? answer.statusText);
  }
  return (await answer.json()) as T;
}
