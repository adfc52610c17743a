import { useCallback, useEffect, useRef, useState, type FormEvent } from "react";

import { address } from "./api";
import {
  get, newKey, pathOf, post, told, when, type Cause, type Causes, type HeldRow, type Judged, type Page, type ProblemFacts, type Replayed,
} from "./operators";
import { OPERATORS } from "./operatorTheme";
import { ProblemBox } from "./ProblemBox";
import { THEME } from "./theme";
import { zone } from "./times";

const STATES = ["held", "replayed", "discarded"] as const;
type State = (typeof STATES)[number];

/** Rows that checks and sinks hold back, by cause: a sample, a replay after a fix, a discard. */
export function QuarantinePage({ dagId }: { dagId: string }) {
  const [state, setState] = useState<State>("held");
  const [found, setFound] = useState<Causes>();
  const [chosen, setChosen] = useState<Cause>();
  const [rows, setRows] = useState<Page<HeldRow>>();
  const [refused, setRefused] = useState<ProblemFacts>();
  const [problem, setProblem] = useState<ProblemFacts>();
  const [dialog, setDialog] = useState<"replay" | "discard">();
  const look = useCallback(async (signal?: AbortSignal) => {
    try {
      const causes = await get<Causes>(dagId, `/quarantine?state=${state}`, signal);
      setFound(causes);
      setChosen((before) => causes.items.find((cause) => before && sameCause(cause, before)) ?? causes.items[0]);
      setProblem(undefined);
    } catch (error) {
      if (!signal?.aborted) setProblem(told(error));
    }
  }, [dagId, state]);
  useEffect(() => {
    const leave = new AbortController();
    void look(leave.signal);
    return () => leave.abort();
  }, [look]);
  useEffect(() => {
    const leave = new AbortController();
    setRows(undefined);
    setRefused(undefined);
    if (chosen) {
      get<Page<HeldRow>>(dagId, `/quarantine/rows?${queryOf(state, chosen)}`, leave.signal).then(setRows).catch((error) => {
        if (!leave.signal.aborted) setRefused(told(error));
      });
    }
    return () => leave.abort();
  }, [dagId, state, chosen]);
  const styles = <style>{THEME + OPERATORS}</style>;
  if (!found) return <section className="databus" role="status">{styles}{problem ? <ProblemBox of={problem} again={() => void look()} /> : "Loading …"}</section>;
  const many = (of: State) => Object.values(found.tally[of] ?? {}).reduce((sum, count) => sum + count, 0);
  return (
    <section className="databus" data-testid="databus-quarantine">
      {styles}
      {problem ? <ProblemBox of={problem} again={() => void look()} /> : null}
      <div className="bar">
        <h1>Quarantine of {found.flow}</h1>
        <span role="group" aria-label="States" className="bar">
          {STATES.map((name) => <button key={name} type="button" aria-pressed={state === name} onClick={() => setState(name)}>{name} {many(name).toLocaleString("en")}</button>)}
        </span>
        <span className="end"><button type="button" onClick={() => void look()}>Refresh</button></span>
      </div>
      {!chosen ? <p data-testid="empty">{state === "held" ? "✓ No row is held back." : `No row is ${state}.`}</p> : (
        <div className="two">
          <div className="room" role="group" aria-label="Causes">
            {found.items.map((cause) => (
              <button key={`${cause.stage} ${cause.table} ${cause.cause}`} type="button" className="cause" aria-pressed={sameCause(cause, chosen)} onClick={() => setChosen(cause)} data-testid="cause">
                <span className="mono">{cause.cause.slice(0, 200)}</span><b>{cause.rows.toLocaleString("en")}</b>
                <span className="note">{cause.stage === "check" ? "check" : `refused by ${cause.stage}`} · {cause.table}</span>
                <span className="note">last {when(cause.last_held_at)}</span>
              </button>
            ))}
            {found.next ? <p className="note">and more causes: `databus quarantine list` shows all</p> : null}
          </div>
          <div style={{ display: "grid", gap: 12, minWidth: 0 }}>
            <div className="bar">
              <h2>{chosen.table}: {chosen.rows.toLocaleString("en")} {chosen.rows === 1 ? "row" : "rows"}, last in batch {chosen.batch}</h2>
              <span className="end bar">
                <a href={address(pathOf(dagId, `/quarantine/export?${queryOf(state, chosen)}`))} download>Export</a>
                {state === "held" ? <><button type="button" onClick={() => setDialog("discard")}>Discard…</button><button type="button" className="act" onClick={() => setDialog("replay")} data-testid="replay">Replay…</button></> : null}
              </span>
            </div>
            {refused ? <ProblemBox of={refused} /> : <Rows of={rows} />}
          </div>
        </div>
      )}
      {dialog && chosen ? <Decide dagId={dagId} flow={found.flow} action={dialog} cause={chosen} close={(changed) => { setDialog(undefined); if (changed) void look(); }} /> : null}
    </section>
  );
}

function Rows({ of }: { of: Page<HeldRow> | undefined }) {
  if (!of) return <p role="status">Loading …</p>;
  return (
    <>
      <div className="room"><table data-testid="rows">
        <thead><tr><th scope="col">Key</th><th scope="col">Position</th><th scope="col" className="n">Batch</th><th scope="col">Held</th><th scope="col">Row, as the flow shows it</th></tr></thead>
        <tbody>{of.items.map((row) => (
          <tr key={`${row.event_id} ${row.stage}`} title={row.event_id}>
            <td className="mono">{row.key ?? "no key"}</td><td className="mono">{row.position}</td><td className="n">{row.batch}</td>
            <td>{when(row.held_at)}{row.who ? <span className="note">{row.state} by {row.who}: {row.why}</span> : null}</td>
            <td className="payload">{row.payload === null ? `${row.payload_chars.toLocaleString("en")} characters: in the export` : text(row.payload)}</td>
          </tr>
        ))}</tbody>
      </table></div>
      <p className="note">{of.items.length} shown{of.next ? ", the export has all" : ""} · what the flow masks or drops is hidden here, too · times are {zone()}</p>
    </>
  );
}

function Decide(props: { dagId: string; flow: string; action: "replay" | "discard"; cause: Cause; close: (changed: boolean) => void }) {
  const { dagId, flow, action, cause } = props;
  const [seen, setSeen] = useState<Judged & { key: string }>();
  const [done, setDone] = useState<{ result: Replayed[] | { discarded: number }; refused?: { why: string } | null }>();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<ProblemFacts>();
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDialogElement>(null);
  const which = { stage: cause.stage, table: cause.table, cause: cause.cause, whole_cause: true };
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem(undefined);
    try { await work(); } catch (error) { setProblem(told(error)); } finally { setBusy(false); }
  };
  const preview = () => attempt(async () => setSeen({ ...(await post<Judged>(dagId, "/quarantine/preview", { action, ...which })), key: newKey() }));
  useEffect(() => { box.current?.showModal(); void preview(); }, []);
  const ready = seen !== undefined && seen.rows > 0 && reason.trim() !== "" && (action === "replay" || typed === flow) && !busy;
  const go = (event: FormEvent) => {
    event.preventDefault();
    if (ready) void attempt(async () => setDone(await post(dagId, `/quarantine/${action}`, { ...which, reason, rows: seen.rows, upto: seen.upto }, seen.key)));
  };
  const leave = () => props.close(done !== undefined);
  const verb = action === "replay" ? "Replay" : "Discard";
  return (
    <dialog ref={box} onCancel={(event) => { event.preventDefault(); if (!busy) leave(); }} aria-label={`${verb} rows`} data-testid="decide">
      <form onSubmit={go}>
        <h2>{verb} rows of {flow}</h2>
        <p className="mono">{cause.cause.slice(0, 500)}</p>
        {done ? <p role="status" data-testid="done"><strong>{wellOf(done.result)}</strong> {outcomeOf(done.result)}{done.refused ? ` Not all: ${done.refused.why}` : ""}</p> : seen ? (
          <div data-testid="effect">
            <p><b>{seen.rows.toLocaleString("en")} {seen.rows === 1 ? "row" : "rows"}</b> {action === "replay" ? "go through the flow as it is now, each once; what a check or sink refuses again stays held" : "are never replayed; they stay listed, with who and why"}. Nothing was done yet.</p>
            {seen.refused.map((one) => <p key={one.batch} className="warn">batch {one.batch}, {one.rows} rows, would be refused: {one.why} {one.hint}</p>)}
          </div>
        ) : problem ? null : <p role="status">Looking …</p>}
        {busy && seen ? <p role="status">Working … it may take a while; it is done once, whatever happens to this page.</p> : null}
        {problem ? <ProblemBox of={problem} again={() => void preview()} /> : null}
        {seen && !done ? (
          <>
            <label>Reason<input value={reason} maxLength={2000} onChange={(e) => setReason(e.target.value)} data-testid="reason" /></label>
            {action === "discard" ? <label>Type the flow’s name<input value={typed} autoComplete="off" onChange={(e) => setTyped(e.target.value)} data-testid="typed" /></label> : null}
          </>
        ) : null}
        <footer>
          <button type="button" onClick={leave} disabled={busy}>{done ? "Close" : "Cancel"}</button>
          {done ? null : <button type="submit" className="act" disabled={!ready} data-testid="do">{verb} {seen?.rows.toLocaleString("en") ?? ""} {seen?.rows === 1 ? "row" : "rows"}</button>}
        </footer>
      </form>
    </dialog>
  );
}

function wellOf(result: Replayed[] | { discarded: number }): string {
  return Array.isArray(result) && result.some((one) => one.held) ? "! Not all went out." : "✓ Done.";
}

function outcomeOf(result: Replayed[] | { discarded: number }): string {
  if (!Array.isArray(result)) return `${result.discarded.toLocaleString("en")} discarded.`;
  const sum = (of: "replayed" | "held" | "discarded") => result.reduce((all, one) => all + one[of], 0).toLocaleString("en");
  return `${sum("replayed")} replayed, ${sum("held")} held again, ${sum("discarded")} sent nowhere by the flow as it is.`;
}

function sameCause(one: Cause, other: Cause): boolean {
  return one.stage === other.stage && one.table === other.table && one.cause === other.cause;
}

function queryOf(state: State, of: Cause): string {
  return new URLSearchParams({ state, stage: of.stage, table: of.table, cause: of.cause }).toString();
}

function text(payload: unknown): string {
  return typeof payload === "string" ? payload : JSON.stringify(payload, null, 1);
}
