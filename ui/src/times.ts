/** The zone that a person chose in the host, which keeps it as JSON; the browser's where none was chosen. */
export function zone(): string {
  const kept = (window.localStorage.getItem("timezone") ?? "").replace(/^"|"$/g, "");
  try {
    return new Intl.DateTimeFormat("en", { timeZone: kept || undefined }).resolvedOptions().timeZone;
  } catch {
    return "UTC";
  }
}

/** Today's times as hh:mm:ss, older ones with their day. */
export function time(iso: string): string {
  const [day, clock] = parts(iso);
  return day === parts(new Date().toISOString())[0] ? clock : `${day} ${clock}`;
}

/** The time alone: for an axis, hh:mm, or its day where a window is long. */
export function tick(ms: number, windowMs: number): string {
  const [day, clock] = parts(new Date(ms).toISOString());
  return windowMs > 172_800_000 ? `${day.slice(5)} ${clock.slice(0, 5)}` : clock.slice(0, 5);
}

/** All that is known of a time, to the millisecond, with its zone. */
export function exact(iso: string): string {
  const [day, clock] = parts(iso);
  return `${day} ${clock}.${String(new Date(iso).getMilliseconds()).padStart(3, "0")} ${zone()}`;
}

/** Its clock to the millisecond, with its day where that is not today. */
export function clock(iso: string): string {
  return `${time(iso)}.${String(new Date(iso).getMilliseconds()).padStart(3, "0")}`;
}

function parts(iso: string): [string, string] {
  const shown = new Intl.DateTimeFormat("sv-SE", { timeZone: zone(), dateStyle: "short", timeStyle: "medium" }).format(new Date(iso));
  const [day = "", at = ""] = shown.split(" ");
  return [day, at];
}
