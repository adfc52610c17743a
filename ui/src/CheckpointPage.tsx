import { useCallback, useEffect, useState } from "react";

import { MoveDialog, type Action } from "./MoveDialog";
import { get, told, when, type Checkpoint, type Entry, type Page, type ProblemFacts } from "./operators";
import { OPERATORS } from "./operatorTheme";
import { ProblemBox } from "./ProblemBox";
import { THEME } from "./theme";
import { zone } from "./times";

const REFRESH_MS = 10_000;
const SIGNS: Record<string, string> = { commit: "✓", pause: "‖", resume: "▷", rewind: "⏪", skip: "⏩", restore: "↺", adopt: "⎇", start: "▷" };

/** Where a flow stands, who moved it and why, and its moves by hand. */
export function CheckpointPage({ dagId }: { dagId: string }) {
  const [state, setState] = useState<Checkpoint>();
  const [entries, setEntries] = useState<Entry[]>([]);
  const [fold, setFold] = useState(true);
  const [problem, setProblem] = useState<ProblemFacts>();
  const [dialog, setDialog] = useState<{ action: Action; entry?: number }>();
  const look = useCallback(async (signal?: AbortSignal) => {
    if (document.hidden) return;
    try {
      const history = `/checkpoint/history?limit=50&amendments=${fold}`;
      const [found, page] = await Promise.all([get<Checkpoint>(dagId, "/checkpoint", signal), get<Page<Entry>>(dagId, history, signal)]);
      setState(found);
      setEntries(page.items);
      setProblem(undefined);
    } catch (error) {
      if (!signal?.aborted) setProblem(told(error));
    }
  }, [dagId, fold]);
  useEffect(() => {
    const leave = new AbortController();
    let busy = false;  // a server that hangs must not get a second request from this page
    const tick = async () => {
      if (busy) return;
      busy = true;
      try { await look(leave.signal); } finally { busy = false; }
    };
    void tick();
    const timer = window.setInterval(() => void tick(), REFRESH_MS);
    return () => { leave.abort(); window.clearInterval(timer); };
  }, [look]);
  const styles = <style>{THEME + OPERATORS}</style>;
  if (!state) return <section className="databus" role="status">{styles}{problem ? <ProblemBox of={problem} again={() => void look()} /> : "Loading …"}</section>;
  const behind = Object.entries(state.sinks_behind ?? {});
  const open = (action: Action, entry?: number) => setDialog({ action, entry });
  const moves = state.place !== null;
  return (
    <section className="databus" data-testid="databus-checkpoint">
      {styles}
      {problem ? <ProblemBox of={problem} again={() => void look()} /> : null}
      {state.paused ? <p role="status" className="warn" data-testid="paused">‖ {state.paused}</p> : null}
      <div className="bar">
        <h1>Checkpoint of {state.flow}</h1>
        <span className="end bar">
          {state.paused ? <button type="button" onClick={() => open("resume")}>▷ Resume…</button> : <button type="button" disabled={!moves} onClick={() => open("pause")}>‖ Pause…</button>}
          <button type="button" disabled={!moves} onClick={() => open("skip")}>⏩ Skip…</button>
          <button type="button" disabled={!moves} onClick={() => open("rewind")} data-testid="rewind">⏪ Rewind…</button>
          <button type="button" disabled={!moves} onClick={() => open("adopt")}>⎇ Adopt…</button>
        </span>
      </div>
      {state.note ? <p>{state.note}</p> : (
        <dl className="facts">
          <div><dt>Checkpoint</dt><dd className="mono" data-testid="place">{state.place}<span className="note">version {state.version}</span></dd></div>
          <div><dt>Batch</dt><dd>{state.batch?.toLocaleString("en")}<span className="note">epoch {state.epoch}, {when(state.updated_at)}</span></dd></div>
          <div><dt>Watermark</dt><dd>{when(state.watermark)}</dd></div>
          <div><dt>In hand</dt><dd>{state.plan_in_flight ?? "nothing"}</dd></div>
          <div><dt>Behind</dt><dd className={behind.length ? "warn" : ""}>{behind.length ? behind.map(([name, at]) => `${name}: ${at}`).join("; ") : "no sink"}</dd></div>
          <div><dt>Gaps</dt><dd className={state.open_gaps?.length ? "warn" : ""}>{state.gaps.length}<span className="note">{state.open_gaps?.length ?? 0} not decided</span></dd></div>
        </dl>
      )}
      <div className="bar">
        <h2>History</h2><span className="note">times are {zone()}</span>
        <label className="end"><input type="checkbox" style={{ width: "auto", height: "auto" }} checked={fold} onChange={(e) => setFold(e.target.checked)} /> leave batches out</label>
      </div>
      <div className="room"><table data-testid="history">
        <thead><tr><th scope="col" className="n">Entry</th><th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">From</th><th scope="col">To</th><th scope="col" className="n">Rows read</th><th scope="col">Why</th><th scope="col" aria-label="Action" /></tr></thead>
        <tbody>{entries.map((e) => (
          <tr key={e.number}>
            <td className="n">{e.number}</td><td>{when(e.at)}</td><td>{e.who}</td>
            <td><span aria-hidden="true">{SIGNS[e.action] ?? "•"}</span> {e.action}</td>
            <td className="mono">{e.from ?? ""}</td><td className="mono">{e.to === e.from ? "stays" : e.to}</td>
            <td className="n">{e.rows.toLocaleString("en")}</td><td className="long">{e.why}</td>
            <td>{e.to === state.place ? null : <button type="button" className="plain" onClick={() => open("restore", e.number)}>restore…</button>}</td>
          </tr>
        ))}</tbody>
      </table></div>
      {dialog ? <MoveDialog key={`${dialog.action}${dialog.entry ?? ""}`} dagId={dagId} flow={state.flow} {...dialog} sinks={behind.map(([name]) => name)} close={(changed) => { setDialog(undefined); if (changed) void look(); }} /> : null}
    </section>
  );
}
