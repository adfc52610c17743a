import { useEffect, useRef, useState, type FormEvent } from "react";

import { newKey, post, told, type Done, type Previewed, type ProblemFacts } from "./operators";
import { ProblemBox } from "./ProblemBox";

export type Action = "pause" | "resume" | "rewind" | "skip" | "restore" | "adopt";
type Chosen = { place: string; batches: string; entry: string; to: "place" | "batches" | "past_gap"; sink: string; repair: boolean };

const NOTHING: Chosen = { place: "", batches: "1", entry: "", to: "batches", sink: "", repair: false };
const TITLES: Record<Action, string> = {
  pause: "Pause", resume: "Resume", rewind: "Rewind", skip: "Skip", restore: "Restore", adopt: "Adopt the sinks' markers",
};

/** Choose → preview → type the flow's name and a reason → done, with the way back. */
export function MoveDialog(props: { dagId: string; flow: string; action: Action; entry?: number; sinks: string[]; close: (changed: boolean) => void }) {
  const { dagId, flow, sinks } = props;
  const [action, setAction] = useState(props.action);
  const [chosen, setChosen] = useState<Chosen>({ ...NOTHING, entry: String(props.entry ?? ""), to: props.action === "skip" ? "place" : "batches" });
  const [seen, setSeen] = useState<Previewed & { key: string }>();
  const [done, setDone] = useState<Done>();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [consents, setConsents] = useState(false);
  const [problem, setProblem] = useState<ProblemFacts>();
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDialogElement>(null);
  const changed = useRef(false);
  useEffect(() => { box.current?.showModal(); }, []);
  const simple = action === "pause" || action === "resume";
  const refused = seen?.preview.sinks?.some((one) => one.refused) ?? false;
  const ready = reason.trim() !== "" && (simple || typed === flow) && (!refused || consents) && !busy;

  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem(undefined);
    try { await work(); } catch (error) { setProblem(told(error)); } finally { setBusy(false); }
  };
  const preview = (of: Action = action, wanted: Chosen = chosen) => attempt(async () => {
    setSeen(undefined);
    const body = { action: of, ...bodyOf(of, wanted) };
    setSeen({ ...(await post<Previewed>(dagId, "/checkpoint/preview", body)), key: newKey() });
  });
  const go = () => attempt(async () => {
    if (!seen) return;
    const body = simple ? { reason } : { ...bodyOf(action, chosen), reason, accept: consents };
    setDone(await post<Done>(dagId, `/checkpoint/${action}`, body, seen.key, simple ? "" : seen.version));
    changed.current = true;
  });
  const submit = (event: FormEvent) => { event.preventDefault(); if (!seen) void preview(); else if (ready) void go(); };
  const back = (entry: number) => {
    const wanted = { ...NOTHING, entry: String(entry) };
    setAction("restore"); setChosen(wanted); setDone(undefined); setTyped(""); setReason("");
    void preview("restore", wanted);
  };
  const leave = () => props.close(changed.current);

  return (
    <dialog ref={box} onCancel={(event) => { event.preventDefault(); if (!busy) leave(); }} aria-label={`${TITLES[action]} ${flow}`} data-testid="move">
      <form onSubmit={submit}>
        <h2>{TITLES[action]} {flow}</h2>
        {done ? (
          <div role="status" data-testid="done">
            <p><strong>✓ Done.</strong> {done.result.to ? <>It stands at <span className="mono">{done.result.to}</span>.</> : done.result.paused ?? `It was ${done.result.was}.`}</p>
            {done.way_back ? <p>Way back: <button type="button" className="plain" data-testid="way-back" onClick={() => back(done.way_back!.entry)}>restore entry {done.way_back.entry}…</button></p> : null}
          </div>
        ) : seen ? <Seen of={seen} consents={consents} consent={setConsents} /> : <Choose action={action} of={chosen} set={setChosen} sinks={sinks} />}
        {problem ? <ProblemBox of={problem} again={problem.status === 412 ? () => void preview() : undefined} /> : null}
        {seen && !done ? (
          <>
            <label>Reason<input value={reason} maxLength={2000} onChange={(e) => setReason(e.target.value)} data-testid="reason" /><span className="note">kept in history, audit and Airflow’s event log</span></label>
            {simple ? null : <label>Type the flow’s name<input value={typed} autoComplete="off" onChange={(e) => setTyped(e.target.value)} data-testid="typed" /><span className="note">type <b>{flow}</b> to go on</span></label>}
          </>
        ) : null}
        <footer>
          {seen && !done ? <span className="note">valid for version {seen.version}</span> : null}
          <button type="button" onClick={leave} disabled={busy}>{done ? "Close" : "Cancel"}</button>
          {done ? null : seen
            ? <button type="submit" className="act" disabled={!ready} data-testid="do">{labelOf(action, seen)}</button>
            : <button type="submit" className="act" disabled={busy} data-testid="preview">Preview</button>}
        </footer>
      </form>
    </dialog>
  );
}

function Choose({ action, of, set, sinks }: { action: Action; of: Chosen; set: (chosen: Chosen) => void; sinks: string[] }) {
  if (action === "pause") return <p>A running window ends after its batch; runs after it are skipped until somebody resumes the flow.</p>;
  if (action === "resume") return <p>The next run of the DAG moves rows again.</p>;
  if (action === "adopt") return <p>For a ZooKeeper that was restored from an older copy: the checkpoint goes to where the sinks’ markers stand.</p>;
  if (action === "restore") {
    return <label>Entry of the history<input type="number" min={1} value={of.entry} onChange={(e) => set({ ...of, entry: e.target.value })} data-testid="entry" /></label>;
  }
  return (
    <>
      <label>Where to
        <select value={of.to} onChange={(e) => set({ ...of, to: e.target.value as Chosen["to"] })} data-testid="to">
          {action === "rewind" ? <option value="batches">committed batches back</option> : <option value="past_gap">past what the source deleted</option>}
          <option value="place">a place of the log</option>
        </select>
      </label>
      {of.to === "batches" ? <label>Batches<input type="number" min={1} value={of.batches} onChange={(e) => set({ ...of, batches: e.target.value })} data-testid="batches" /></label> : null}
      {of.to === "place" ? (
        <label>Place<input value={of.place} onChange={(e) => set({ ...of, place: e.target.value })} data-testid="place" placeholder="2024-01-31T12:00:00, gtid:…, FILE:POS, earliest, latest" />
          <span className="note">a time is UTC without a zone</span></label>
      ) : null}
      {action === "skip" && sinks.length ? (
        <label>Sink<select value={of.sink} onChange={(e) => set({ ...of, sink: e.target.value })}><option value="">the whole flow</option>{sinks.map((name) => <option key={name}>{name}</option>)}</select></label>
      ) : null}
      {action === "skip" && !of.sink ? (
        <label className="tick"><input type="checkbox" checked={of.repair} onChange={(e) => set({ ...of, repair: e.target.checked })} />read the tables anew behind it (MySQL, MariaDB)</label>
      ) : null}
    </>
  );
}

function Seen({ of, consents, consent }: { of: Previewed; consents: boolean; consent: (yes: boolean) => void }) {
  const { preview } = of;
  const rows = Object.values(preview.rows ?? {}).reduce((sum, count) => sum + count, 0);
  const refused = preview.sinks?.some((one) => one.refused);
  if (of.action === "pause" || of.action === "resume") return <p data-testid="effect">{preview.paused ?? "It is not paused."}</p>;
  return (
    <div data-testid="effect">
      <dl className="facts">
        <div><dt>From</dt><dd className="mono">{preview.from}</dd></div>
        <div><dt>To</dt><dd className="mono">{preview.to}</dd></div>
        {preview.direction === "back" ? <div><dt>Read again</dt><dd className="warn">{rows.toLocaleString("en")} rows{preview.rows_complete ? "" : " and more"}<span className="note">in {preview.batches} batches</span></dd></div> : null}
        {preview.direction === "forward" ? <div><dt>Lost</dt><dd className="warn">all rows between<span className="note">named as a gap</span></dd></div> : null}
        {preview.bytes != null ? <div><dt>Log between</dt><dd>{preview.bytes.toLocaleString("en")} bytes</dd></div> : null}
        {preview.needed !== undefined ? <div><dt>Needed</dt><dd>{preview.needed ? "yes" : "no: checkpoint and markers agree"}</dd></div> : null}
      </dl>
      {preview.sinks ? (
        <div className="room"><table>
          <thead><tr><th scope="col">Sink</th><th scope="col">What its readers see</th></tr></thead>
          <tbody>{preview.sinks.map((one) => (
            <tr key={one.sink}><td>{one.sink}</td><td className="long">{one.effect}{one.refused ? <span className="warn"> Refused: {one.refused}</span> : null}</td></tr>
          ))}</tbody>
        </table></div>
      ) : null}
      {preview.effect ? <p>{preview.effect}; it {preview.then}</p> : null}
      {preview.plan_closed ? <p>Closed first: {preview.plan_closed}</p> : null}
      {preview.snapshot ? <p>{preview.snapshot}</p> : null}
      {preview.outputs_accepted?.length ? <p className="warn">Accepted as they are now: {preview.outputs_accepted.join(", ")}</p> : null}
      {preview.repeated?.length ? <p className="warn">Repeated: {preview.repeated.join("; ")}</p> : null}
      {refused ? <label className="tick"><input type="checkbox" checked={consents} onChange={(e) => consent(e.target.checked)} data-testid="consent" />its readers can bear what the sink refuses</label> : null}
    </div>
  );
}

function labelOf(action: Action, seen: Previewed): string {
  const rows = Object.values(seen.preview.rows ?? {}).reduce((sum, count) => sum + count, 0);
  return seen.preview.direction === "back" ? `${TITLES[action]} and repeat ${rows.toLocaleString("en")} rows` : TITLES[action];
}

function bodyOf(action: Action, of: Chosen): object {
  if (action === "restore") return { entry: Number(of.entry) };
  if (action === "rewind") return of.to === "batches" ? { batches: Number(of.batches) } : { place: of.place };
  if (action !== "skip") return {};
  const where = of.to === "past_gap" ? { past_gap: true } : { place: of.place };
  return of.sink ? { ...where, sink: of.sink } : { ...where, repair: of.repair };
}

