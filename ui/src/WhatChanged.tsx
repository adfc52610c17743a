import { useEffect, useState } from "react";

import { Refused } from "./api";
import { Failure } from "./Failure";
import { count } from "./flows";
import { fetchImages, type Images, type Journey } from "./trace";

/** The row before and after the change, as a sink holds it: for those who may edit the flow's DAG. */
export function WhatChanged({ journey }: { journey: Journey }) {
  const seen = journey.steps.filter((step) => step.sink && step.title !== "Tombstone" && !step.warns);
  const step = seen.find((one) => one.stage === "record") ?? seen[0];
  const [images, setImages] = useState<Images>();
  const [error, setError] = useState<Error>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!step || !journey.dag_id) return;
    const leave = new AbortController();
    setError(undefined);
    fetchImages(journey.dag_id, step.sink, step.place, leave.signal).then(setImages)
      .catch((reason: Error) => { if (!leave.signal.aborted) setError(reason); });
    return () => leave.abort();
  }, [journey, step?.place, tries]);
  if (!step || !journey.dag_id) return <div className="card" data-testid="changed"><h2>What changed</h2><p className="note">No sink of this flow shows the row.</p></div>;
  const hidden = error instanceof Refused && error.status === 403;
  return (
    <div className="card diffs" data-testid="changed">
      <div className="bar head"><h2>What changed</h2><span className="note">as {step.sink} holds it</span></div>
      {hidden ? <p data-testid="values-hidden"><span className="chip"><Lock />values hidden</span> Places and counts only: row values need the right to edit DAG {journey.dag_id}.</p>
        : error ? <Failure what="The row could not be read:" error={error} again={() => setTries(tries + 1)} />
          : images ? <Diff images={images} /> : <p role="status" className="loading">Loading …</p>}
    </div>
  );
}

function Lock() {
  return <svg className="lock" viewBox="0 0 10 11" aria-hidden="true"><path d="M2 5V3.5a3 3 0 0 1 6 0V5h1v6H1V5zm1.5 0h3V3.5a1.5 1.5 0 0 0-3 0z" /></svg>;
}

function Diff({ images }: { images: Images }) {
  const { before, after, masked, note } = images;
  const columns = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const differs = (column: string) => before !== null && after !== null && before[column] !== after[column];
  return (
    <>
      {columns.length ? (
        <div className="room" role="region" aria-label="Columns" tabIndex={0}>
          <table className="dense diff">
            <thead><tr><th scope="col">Column</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
            <tbody>
              {columns.map((column) => masked[column] !== undefined ? (
                <tr key={column}><th scope="row">{column}</th><td colSpan={2}><span className="chip"><Lock />••••••</span> {masked[column]}, for everyone</td></tr>
              ) : (
                <tr key={column}><th scope="row">{differs(column) ? <b>{column}</b> : column}</th>
                  <Value row={before} column={column} sign={differs(column) || after === null ? "−" : ""} tone="bad" />
                  <Value row={after} column={column} sign={differs(column) || before === null && !note ? "+" : ""} tone="good" /></tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      <p className="note">{[before && after ? `${columns.filter(differs).length} of ${count(columns.length, "column")} changed` : "", note].filter(Boolean).join("; ")}</p>
    </>
  );
}

function Value({ row, column, sign, tone }: { row: Images["before"]; column: string; sign: string; tone: string }) {
  if (row === null || !(column in row)) return <td />;
  const value = row[column];
  return <td className="wrap">{sign ? <span className="changed" data-tone={tone}><b className="state">{sign} </b>{value ?? <i>null</i>}</span> : value ?? <i>null</i>}</td>;
}
