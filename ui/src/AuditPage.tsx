import { useCallback, useEffect, useState } from "react";

import { AuditView } from "./AuditView";
import { Failure } from "./Failure";
import { fetchDags } from "./flows";
import { HISTORY } from "./historyTheme";
import { useAddress } from "./page";
import { Tabs } from "./Tabs";
import { THEME } from "./theme";

/** The audit of one flow after another: of each whose DAG a person may see. */
export function AuditPage() {
  const [dag, setDag] = useAddress("dag");
  const [dags, setDags] = useState<string[]>();
  const [error, setError] = useState<Error>();
  const look = useCallback(async (signal?: AbortSignal) => {
    try {
      const found = await fetchDags(signal ?? new AbortController().signal);
      setDags(found.dags.map((one) => one.dag_id));
      setError(undefined);
    } catch (reason) {
      if (!signal?.aborted) setError(reason as Error);
    }
  }, []);
  useEffect(() => {
    const leave = new AbortController();
    void look(leave.signal);
    return () => leave.abort();
  }, [look]);
  return (
    <section className="databus" data-testid="databus-audit">
      <style>{THEME + HISTORY}</style>
      <Tabs here="Audit" />
      <h1 className="hidden">Audit</h1>
      {error ? <Failure what="The flows could not be read:" error={error} again={() => void look()} /> : null}
      <div className="bar">
        <label className="bar"><b>Flow’s DAG</b>
          <select value={dag} onChange={(e) => setDag(e.target.value)} data-testid="dag">
            <option value="">choose one</option>
            {[...new Set([...(dags ?? []), ...(dag ? [dag] : [])])].map((id) => <option key={id}>{id}</option>)}
          </select>
        </label>
      </div>
      {dag ? <AuditView key={dag} dagId={dag} /> : dags?.length === 0
        ? <p className="card" role="status">No DAG of a flow is there, or none that you may see.</p>
        : <p className="card note" role="status">Choose a flow. What was done by a page, by the command and by runs is listed with who and why; commits of batches are not.</p>}
    </section>
  );
}
