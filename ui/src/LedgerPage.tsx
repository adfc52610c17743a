import { useCallback, useEffect, useState, type KeyboardEvent } from "react";

import { count } from "./flows";
import type { Column, LedgerGap, LedgerView, Rows } from "./history";
import { get, told, type ProblemFacts } from "./operators";
import { bytes } from "./page";
import { ProblemBox } from "./ProblemBox";
import { exact, time, zone } from "./times";

const STATES = ["quarantined", "filtered", "dispatched"] as const;
const KEYS: [string, string][] = [
  ["dispatched", "dispatched"], ["filtered", "filtered"], ["quarantined", "quarantined"], ["pending", "pending"], ["gap", "gap"], ["unknown", "not accounted for"],
];

/** What became of each byte of the log: as a band, in sums, and gap by gap. */
export function LedgerPage({ dagId }: { dagId: string }) {
  const [found, setFound] = useState<LedgerView>();
  const [asOf, setAsOf] = useState("");
  const [problem, setProblem] = useState<ProblemFacts>();
  const [busy, setBusy] = useState(false);
  const look = useCallback(async (signal?: AbortSignal) => {
    setBusy(true);
    try {
      setFound(await get<LedgerView>(dagId, "/ledger/band", signal));
      setAsOf(new Date().toISOString());
      setProblem(undefined);
    } catch (error) {
      if (!signal?.aborted) setProblem(told(error));
    } finally {
      if (!signal?.aborted) setBusy(false);
    }
  }, [dagId]);
  useEffect(() => {
    const leave = new AbortController();
    void look(leave.signal);
    return () => leave.abort();
  }, [look]);
  if (!found) return problem ? <ProblemBox of={problem} again={() => void look()} /> : <p role="status" className="loading">Loading …</p>;
  const open = found.gaps.filter((gap) => !gap.decided);
  return (
    <>
      {problem ? <ProblemBox of={problem} again={() => void look()} /> : null}
      <div className="bar">
        <h2>Ledger of {found.flow}</h2>
        <Verdict of={found} open={open.length} />
        <span className="end">as of {time(asOf)} {zone()} <button type="button" disabled={busy} onClick={() => void look()}>{busy ? "Reading …" : "Refresh"}</button></span>
      </div>
      {found.problems.length ? (
        <ul className="card" data-testid="problems">{found.problems.map((one, index) => <li key={index}><b>{one.subject}:</b> {one.problem}</li>)}</ul>
      ) : null}
      {found.band.length ? <Band of={found} open={open} /> : <p className="card" role="status" data-testid="empty">No batch is committed yet: there is nothing to account for.</p>}
      <Sums of={found} />
      <Gaps gaps={found.gaps} />
    </>
  );
}

function Verdict({ of, open }: { of: LedgerView; open: number }) {
  const passed = of.gaps.filter((gap) => gap.decided && !gap.taken_back).length;
  const [tone, sign, words] = of.problems.length ? ["bad", "✕", `${count(of.problems.length, "problem")}: it does not add up`]
    : open ? ["bad", "✕", `stands in front of ${count(open, "gap")}`]
      : passed ? ["warn", "!", `adds up, with ${passed === 1 ? "one gap that was" : `${passed.toLocaleString("en")} gaps that were`} passed over`]
        : ["good", "✓", "adds up, without a gap"];
  return <span className="pill" data-tone={tone} data-testid="verdict"><span aria-hidden="true">{sign} </span>{words}</span>;
}

function Band({ of, open }: { of: LedgerView; open: LedgerGap[] }) {
  const [at, setAt] = useState<number>();
  const last = of.band.length - 1;
  const press = (event: KeyboardEvent) => {
    const to: Record<string, number> = { ArrowLeft: Math.max(0, (at ?? last + 1) - 1), ArrowRight: Math.min(last, (at ?? -1) + 1), Home: 0, End: last };
    const next = to[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setAt(next);
  };
  const here = at === undefined ? undefined : of.band[at];
  return (
    <>
      <div className="band" role="slider" tabIndex={0} aria-label="Column of the log" aria-valuemin={1} aria-valuemax={last + 1} aria-valuenow={(at ?? last) + 1}
        aria-valuetext={here ? wordsOf(here) : "arrow keys go through the columns"} onKeyDown={press} onMouseLeave={() => setAt(undefined)} data-testid="band">
        {of.band.map((column, index) => (
          <i key={index} className={column.kind === "read" ? undefined : column.kind} data-at={index === at || undefined} data-kind={column.kind} onMouseEnter={() => setAt(index)}>
            {column.kind === "read" ? <Shares of={column.rows} /> : null}
            {column.kind === "read" && column.gaps.length ? <b className="tick" /> : null}
          </i>
        ))}
        {of.plan_in_flight ? <i className="pending" data-kind="pending" title={of.plan_in_flight} /> : null}
        {open.map((gap) => <i key={gap.number} className="gap" data-kind="open" title={`gap ${gap.number}: not decided`} />)}
      </div>
      <p className="told" aria-live="off" data-testid="told">{here ? wordsOf(here) : `From ${of.from} to ${of.to}, ${of.entries.toLocaleString("en")} ${of.entries === 1 ? "entry" : "entries"} of the history. Point at a column, or go there with the arrow keys.`}</p>
      <p className="key">{KEYS.map(([name, words]) => <span key={name}><i className={name} aria-hidden="true" />{words}</span>)}</p>
    </>
  );
}

/** A column's rows, each share of its own height; a few held rows stay visible. */
function Shares({ of }: { of: Rows }) {
  const all = Math.max(1, ...[of.quarantined + of.filtered + of.dispatched]);
  return <>{STATES.map((state) => (of[state] ? <span key={state} className={state} style={{ height: `${(100 * of[state]) / all}%` }} /> : null))}</>;
}

function wordsOf(column: Column): string {
  const rows = column.rows;
  const where = `(${column.from}, ${column.to}]`;
  const when = column.at ? `, ${exact(column.at)}` : "";
  const gaps = column.gaps.length ? ` · gap ${column.gaps.join(", ")}` : "";
  if (column.kind !== "read") return `${column.kind === "gap" ? "Gap" : "Not accounted for"}${column.cause ? `: ${column.cause}` : ""} ${where}${when}${gaps}`;
  const batches = column.batches ? (column.batches[0] === column.batches[1] ? `Batch ${column.batches[0]}` : `Batches ${column.batches[0]}–${column.batches[1]}`) : "Batches";
  const size = column.bytes === null ? "bytes not known" : bytes(column.bytes);
  return `${batches} ${where}${when}: ${size}, read ${rows.read.toLocaleString("en")} = filtered ${rows.filtered.toLocaleString("en")} + quarantined ${rows.quarantined.toLocaleString("en")} + dispatched ${rows.dispatched.toLocaleString("en")}${rows.superseded ? ` + superseded ${rows.superseded.toLocaleString("en")}` : ""}${column.partial ? " (a rewind went into it)" : ""}${gaps}`;
}

function Sums({ of }: { of: LedgerView }) {
  const { rows } = of;
  const facts: [string, string, string, string?][] = [
    ["Log", bytes(of.bytes), Object.entries(of.bytes_by_state).map(([state, size]) => `${bytes(size)} ${state.replace("_", " ")}`).join(", ") || "none known"],
    ["Read", rows.read.toLocaleString("en"), "rows"],
    ["Dispatched", rows.dispatched.toLocaleString("en"), "rows"],
    ["Filtered", rows.filtered.toLocaleString("en"), "rows"],
    ["Quarantined", rows.quarantined.toLocaleString("en"), "rows, when they were read", rows.quarantined ? "warn" : undefined],
    ["Read again", of.rows_replayed.toLocaleString("en"), "rows, after rewinds"],
    ["In hand", of.plan_in_flight ? "a batch" : "nothing", of.plan_in_flight ?? (of.pending.length ? count(of.pending.length, "prepared transaction") : "")],
  ];
  return (
    <dl className="facts" data-testid="facts">
      {facts.map(([name, value, about, tone]) => <div key={name} data-tone={tone}><dt>{name}</dt><dd className="state">{value}</dd><dd className="note wrap">{about}</dd></div>)}
    </dl>
  );
}

function Gaps({ gaps }: { gaps: LedgerGap[] }) {
  return (
    <>
      <h3>Gaps</h3>
      {gaps.length === 0 ? <p data-testid="no-gaps">✓ No range of the log was left out.</p> : (
        <div className="room" role="region" aria-label="Gaps" tabIndex={0}>
          <table className="dense" data-testid="gaps">
            <thead><tr><th scope="col" className="n">Gap</th><th scope="col">State</th><th scope="col">Range</th><th scope="col">Cause</th><th scope="col">Who</th><th scope="col">Why</th><th scope="col">When</th></tr></thead>
            <tbody>{[...gaps].reverse().map((gap) => (
              <tr key={gap.number} data-tone={gap.taken_back ? "calm" : gap.decided ? "warn" : "bad"}>
                <td className="n">{gap.number}</td><td><b className="state"><span aria-hidden="true">{gap.taken_back ? "⏪" : gap.decided ? "!" : "✕"}</span>{gap.decided ? gap.decision : "not decided"}</b>
                  {gap.taken_back ? <span className="note">taken back by a rewind</span> : null}</td>
                <td className="place wrap">({gap.from}, {gap.to}]</td><td>{gap.cause}</td><td>{gap.who}</td><td className="why">{gap.why}</td>
                <td title={exact(gap.at)}>{gap.run_url ? <a href={gap.run_url}>{time(gap.at)}</a> : time(gap.at)}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </>
  );
}
