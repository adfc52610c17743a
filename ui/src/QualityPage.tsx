import { useState } from "react";

import { address } from "./api";
import { runAddress } from "./FlowGraph";
import { count } from "./flows";
import type { Check, Quality, QualityRun, RunOfCheck } from "./history";
import { get, told, type ProblemFacts } from "./operators";
import { ProblemBox } from "./ProblemBox";
import { Refresh, useRefresh } from "./refresh";
import { exact, time, zone } from "./times";

type State = "Violated" | "Could not be judged" | "Not judged" | "Met";
const SIGNS: Record<State, { sign: string; tone: string }> = {
  Violated: { sign: "✕", tone: "bad" }, "Could not be judged": { sign: "!", tone: "warn" }, "Not judged": { sign: "–", tone: "calm" },
  Met: { sign: "✓", tone: "good" },
};
const ORDER = Object.keys(SIGNS) as State[];
const [BAR, HEIGHT] = [5, 24];

/** What each check and expectation found in the newest runs: what is violated stands first. */
export function QualityPage({ dagId }: { dagId: string }) {
  const [found, setFound] = useState<Quality>();
  const [asOf, setAsOf] = useState("");
  const [problem, setProblem] = useState<ProblemFacts>();
  const [tries, setTries] = useState(0);
  const [every, setEvery] = useRefresh(async (signal) => {
    try {
      setFound(await get<Quality>(dagId, "/quality/checks?last=30", signal));
      setAsOf(new Date().toISOString());
      setProblem(undefined);
    } catch (error) {
      if (!signal.aborted) setProblem(told(error));
    }
  }, tries);
  const again = () => setTries(tries + 1);
  if (!found) return problem ? <ProblemBox of={problem} again={again} /> : <p role="status" className="loading">Loading …</p>;
  const checks = [...found.checks].sort((a, b) => ORDER.indexOf(stateOf(a)) - ORDER.indexOf(stateOf(b)) || rowsOf(b) - rowsOf(a));
  const [newest] = found.runs;
  return (
    <>
      {problem ? <ProblemBox of={problem} again={again} /> : null}
      <div className="bar">
        <h2>Quality of {found.flow}</h2>
        {newest ? <Verdict checks={checks} met={newest.success} /> : null}
        <span className="end">as of {time(asOf)} {zone()} <Refresh every={every} onChange={setEvery} /></span>
      </div>
      {!newest ? <p className="card" role="status" data-testid="empty">No run is judged yet. A run that moved rows is judged at its end, by its <i>audit</i>.</p> : (
        <>
          <Checks checks={checks} runs={found.runs} dagId={dagId} />
          <h3>Runs</h3>
          <Runs runs={found.runs} dagId={dagId} />
        </>
      )}
    </>
  );
}

/** What the newest run found: met only where the run itself was. */
function Verdict({ checks, met }: { checks: Check[]; met: boolean }) {
  const of = (state: State) => checks.filter((check) => stateOf(check) === state).length;
  const [violated, unclear] = [of("Violated"), of("Could not be judged")];
  const said = [violated ? `${count(violated, "check")} violated` : "", unclear ? `${count(unclear, "check")} could not be judged` : ""].filter(Boolean);
  const [sign, tone] = violated || !(met || unclear) ? ["✕", "bad"] : unclear ? ["!", "warn"] : ["✓", "good"];
  return (
    <span className="pill" data-tone={tone} data-testid="verdict">
      <span aria-hidden="true">{sign} </span>{said.join(", ") || (met ? "all met" : "not met")} in the newest run</span>
  );
}

function stateOf(check: Check): State {
  const newest = check.runs[check.runs.length - 1];
  if (newest?.error) return "Could not be judged";
  if (!newest?.evaluated) return "Not judged";
  return newest.met ? "Met" : "Violated";
}

/** Its name without the table, which has a column of its own. */
function nameOf(check: Check): string {
  return check.name.endsWith(`@${check.table}`) ? check.name.slice(0, -check.table.length - 1) : check.name;
}

function rowsOf(check: Check): number {
  return check.runs.reduce((sum, run) => sum + (run?.violations ?? 0), 0);
}

function Checks({ checks, runs, dagId }: { checks: Check[]; runs: QualityRun[]; dagId: string }) {
  return (
    <div className="room" role="region" aria-label="Checks" tabIndex={0}>
      <table className="dense" data-testid="checks">
        <thead><tr>
          <th scope="col">State</th><th scope="col">Check</th><th scope="col">Table</th><th scope="col">Then</th><th scope="col" className="n">Judged</th>
          <th scope="col" className="n">Violations</th><th scope="col" className="n">Share</th><th scope="col">Last {runs.length === 1 ? "run" : `${runs.length} runs`}</th><th scope="col" className="n">In all</th>
        </tr></thead>
        <tbody>{checks.map((check) => {
          const state = stateOf(check);
          const { sign, tone } = SIGNS[state];
          const all = rowsOf(check);
          const newest = check.runs[check.runs.length - 1];
          return (
            <tr key={`${check.name} ${check.table}`} data-tone={tone}>
              <td><span className="state"><span className="sign" aria-hidden="true">{sign}</span>{state}</span></td>
              <td className="check"><span className="place">{nameOf(check)}</span>{check.error ? <span className="note">{check.error.slice(0, 300)}</span> : null}</td>
              <td>{check.table}</td><td>{check.action}<span className="note">{check.judged_by}</span></td>
              <td className="n">{newest ? newest.evaluated.toLocaleString("en") : "—"}</td><td className="n">{newest ? newest.violations.toLocaleString("en") : "—"}</td>
              <td className="n">{newest?.violating_percent == null ? "—" : share(newest.violating_percent)}</td>
              <td><Bars check={check} runs={runs} /></td>
              <td className="n">{check.action === "quarantine" && all ? <a href={address(`dags/${encodeURIComponent(dagId)}/plugin/databus-quarantine`)}>{all.toLocaleString("en")}</a> : all.toLocaleString("en")}</td>
            </tr>
          );
        })}</tbody>
      </table>
    </div>
  );
}

/** A bar for each run: as high as its share of violations, by orders of magnitude; a dot where it is met, nothing where it was not judged. */
function Bars({ check, runs }: { check: Check; runs: QualityRun[] }) {
  const judged = check.runs.filter((run) => run?.evaluated);
  const bad = judged.filter((run) => !run?.met);
  const most = Math.max(0, ...judged.map((run) => run?.violating_percent ?? 0));
  const summary = `judged in ${count(judged.length, "run")}, violated in ${bad.length}${bad.length ? `, at most ${share(most)}` : ""}`;
  return (
    <svg className="bars" role="img" aria-label={summary} width={check.runs.length * BAR} height={HEIGHT}>
      {check.runs.map((run, index) => {
        const of = runs[runs.length - 1 - index];
        if (!run?.evaluated || !of) return null;
        const height = run.met ? 2 : barOf(run);
        return <rect key={index} x={index * BAR} y={HEIGHT - height} width={BAR - 1} height={height} fill={run.met ? "var(--green)" : "var(--red)"}>
          <title>{`${of.run_id}, ${exact(of.evaluated_at)}: ${run.violations.toLocaleString("en")} of ${run.evaluated.toLocaleString("en")}`}</title></rect>;
      })}
    </svg>
  );
}

/** 100 % is the whole height, 0.0001 % a third of it: a few bad rows among millions are seen. */
function barOf(run: NonNullable<RunOfCheck>): number {
  const percent = run.violating_percent ?? 100;
  const orders = Math.max(0, Math.min(1, (Math.log10(Math.max(percent, 1e-4)) + 4) / 6));
  return Math.round(HEIGHT * (1 / 3 + (2 / 3) * orders));
}

function share(percent: number): string {
  if (percent === 0 || percent >= 0.01) return `${Number(percent.toPrecision(3))} %`;
  return `${percent.toPrecision(1)} %`;
}

function Runs({ runs, dagId }: { runs: QualityRun[]; dagId: string }) {
  return (
    <div className="room" role="region" aria-label="Runs" tabIndex={0}>
      <table className="dense" data-testid="runs">
        <thead><tr><th scope="col">State</th><th scope="col">Judged</th><th scope="col">Run</th><th scope="col" className="n">Values judged</th><th scope="col" className="n">Violations</th><th scope="col">Worst</th></tr></thead>
        <tbody>{runs.map((run) => (
          <tr key={run.run_id}>
            <td data-tone={run.success ? "good" : "bad"}><span className="state"><span className="sign" aria-hidden="true">{run.success ? "✓" : "✕"}</span>{run.success ? "Met" : "Violated"}</span></td>
            <td title={exact(run.evaluated_at)}>{time(run.evaluated_at)}</td>
            <td>{run.run_id.startsWith("local:") ? run.run_id : <a href={runAddress(dagId, run.run_id)}>{run.run_id}</a>}</td>
            <td className="n">{run.evaluated.toLocaleString("en")}</td><td className="n">{run.violations.toLocaleString("en")}</td><td>{run.worst ?? ""}</td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}
