import { useEffect, useRef, useState } from "react";

const EVERY = { "5 s": 5_000, "30 s": 30_000, off: 0 };
export type Every = keyof typeof EVERY;
const KEPT = "databus.refresh";

/** Looks now, whenever `on` changes or the page is shown again, and every so often while it is shown. */
export function useRefresh(look: (signal: AbortSignal) => Promise<void>, on: unknown = null): [Every, (every: Every) => void] {
  const [every, setEvery] = useState<Every>(kept);
  const newest = useRef(look);
  newest.current = look;
  useEffect(() => {
    const leave = new AbortController();
    let busy = false;  // a server that hangs must not get a second request from this page
    const look = async () => {
      if (document.hidden || busy) return;
      busy = true;
      try { await newest.current(leave.signal); } finally { busy = false; }
    };
    const shown = () => void look();
    shown();
    document.addEventListener("visibilitychange", shown);
    const timer = EVERY[every] ? window.setInterval(shown, EVERY[every]) : 0;
    return () => { leave.abort(); window.clearInterval(timer); document.removeEventListener("visibilitychange", shown); };
  }, [every, on]);
  return [every, (next) => { setEvery(next); window.localStorage.setItem(KEPT, next); }];
}

export function Refresh({ every, onChange }: { every: Every; onChange: (every: Every) => void }) {
  return (
    <select aria-label="Refresh" value={every} onChange={(e) => onChange(e.target.value as Every)}>
      {Object.keys(EVERY).map((name) => <option key={name}>{name}</option>)}
    </select>
  );
}

function kept(): Every {
  const found = window.localStorage.getItem(KEPT) ?? "";
  return found in EVERY ? (found as Every) : "5 s";
}
