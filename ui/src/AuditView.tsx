import { useCallback, useEffect, useRef, useState } from "react";

import { address } from "./api";
import { get, pathOf, told, type Page, type ProblemFacts } from "./operators";
import { useAddress } from "./page";
import { ProblemBox } from "./ProblemBox";
import { exact, time, zone } from "./times";

type Entry = { at: string; who: string; action: string; why: string; subject: string; facts: string; number: number };
type Audited = Page<Entry> & { actions: string[] };
/** Entries with the question that they answer. */
type Answered = Audited & { asked: string };

const SIGNS: Record<string, string> = {
  pause: "‖", resume: "▷", rewind: "⏪", skip: "⏩", restore: "↺", adopt: "⎇", start: "▷", replayed: "↻", discarded: "✕",
};
const TYPED_MS = 400;

/** Who did what to a flow and why, by a page, the command or a run. */
export function AuditView({ dagId }: { dagId: string }) {
  const [who, setWho] = useAddress("who");
  const [action, setAction] = useAddress("action");
  const [typed, setTyped] = useState(who);
  const [last, setLast] = useState<Answered>();
  const [problem, setProblem] = useState<ProblemFacts>();
  const [tries, setTries] = useState(0);
  const asked = new URLSearchParams(Object.entries({ who, action }).filter(([, value]) => value)).toString();
  const found = last?.asked === asked ? last : undefined;
  const leave = useRef(new AbortController());
  const look = useCallback(async (before?: Audited) => {
    const { signal } = leave.current;
    try {
      const cursor = before?.next ? `&cursor=${encodeURIComponent(before.next)}` : "";
      const page = await get<Audited>(dagId, `/audit?limit=50&${asked}${cursor}`, signal);
      if (signal.aborted) return;
      setLast({ ...page, items: [...(before?.items ?? []), ...page.items], asked });
      setProblem(undefined);
    } catch (error) {
      if (!signal.aborted) setProblem(told(error));
    }
  }, [dagId, asked]);
  useEffect(() => {
    leave.current = new AbortController();
    void look();
    return () => leave.current.abort();
  }, [look, tries]);
  useEffect(() => {
    const later = window.setTimeout(() => { if (typed !== who) setWho(typed); }, TYPED_MS);
    return () => window.clearTimeout(later);
  }, [typed]);
  const actions = last?.actions ?? [];
  return (
    <>
      {problem ? <ProblemBox of={problem} again={() => setTries(tries + 1)} /> : null}
      <div className="bar">
        <input type="search" value={typed} aria-label="Who" placeholder="Who: a part of the name" onChange={(e) => setTyped(e.target.value)} data-testid="who" />
        <select aria-label="What was done" value={action} onChange={(e) => setAction(e.target.value)} data-testid="action">
          <option value="">everything</option>
          {[...new Set([...actions, ...(action ? [action] : [])])].map((name) => <option key={name}>{name}</option>)}
        </select>
        <a href={address(pathOf(dagId, `/audit.csv?${asked}`))} download data-testid="csv">CSV</a>
        <span className="end">times are {zone()} <button type="button" onClick={() => setTries(tries + 1)}>Refresh</button></span>
      </div>
      {!found ? (problem ? null : <p role="status" className="loading">Loading …</p>) : found.items.length === 0 ? (
        <p className="card" role="status" data-testid="empty">{asked ? "Nothing like this was done." : "Nothing was done by hand, and no run has begun yet."}</p>
      ) : (
        <div className="room" role="region" aria-label="Audit" tabIndex={0}>
          <table className="dense" data-testid="audit">
            <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">To</th><th scope="col">Why</th><th scope="col">What it led to</th></tr></thead>
            <tbody>{found.items.map((entry, index) => (
              <tr key={index}>
                <td title={exact(entry.at)}>{time(entry.at)}</td><td>{entry.who}</td>
                <td><span aria-hidden="true">{SIGNS[entry.action] ?? "•"} </span>{entry.action}</td>
                <td>{entry.subject}{entry.number ? <span className="note">entry {entry.number.toLocaleString("en")}</span> : null}</td>
                <td className="why">{entry.why}</td><td className="place wrap">{entry.facts}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
      {found?.next ? <p><button type="button" onClick={() => void look(found)}>More</button></p> : null}
    </>
  );
}
