import { runAddress } from "./FlowGraph";
import { span } from "./page";
import { clock, exact } from "./times";
import type { Step } from "./trace";

const ICONS: Record<Step["stage"], string> = { source: "◉", batch: "▤", record: "≡", document: "▣", mirror: "⇄", held: "!" };

/** Steps below each other, on a common axis of time. */
export function JourneySteps({ steps }: { steps: Step[] }) {
  const times = steps.flatMap((step) => [step.at, step.until]).filter((at) => at !== null).map((at) => Date.parse(at));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const whole = Math.max(last - first, 1);
  const share = (at: string) => ((Date.parse(at) - first) / whole) * 100;
  return (
    <ol className="steps" data-testid="steps">
      {steps.map((step, index) => {
        const before = step.behind === null ? undefined : steps[step.behind]?.at;
        const from = step.stage === "batch" ? step.at : before ?? step.at;
        const to = step.stage === "batch" ? step.until ?? step.at : step.at;
        return (
          <li key={index} data-tone={step.warns ? "warn" : undefined} className={step.stage} data-testid={`step ${step.stage}`}>
            <span className="icon" aria-hidden="true">{ICONS[step.stage]}</span>
            <div className="what">
              <p><b className="state">{step.warns && step.stage !== "held" ? "! " : ""}{step.title}</b>{" "}
                {step.run ? <a href={runAddress(step.run.dag_id, step.run.run_id)}>{step.flow ? `${step.flow}, ` : ""}run {step.run.run_id.split("__")[0]}</a> : step.flow && step.stage === "mirror" ? step.flow : null}</p>
              {step.place ? <p className="place" title={step.place}>{step.place}</p> : null}
              {step.details.length ? <p className="note">{step.details.join(" · ")}</p> : null}
            </div>
            <span className="axis" aria-hidden="true">{from && to && times.length > 1 ? <i style={{ left: `${Math.min(share(from), share(to))}%`, width: `${Math.max(Math.abs(share(to) - share(from)), 0.8)}%` }} /> : null}</span>
            <span className="when">
              <b>{step.seconds === null ? (index === 0 && step.at ? "0 s" : "") : `+${span(step.seconds)}`}</b>
              {step.at ? <time dateTime={step.at} title={exact(step.at)}>{clock(step.at)}</time> : <span>time not known</span>}
              {step.until ? <time dateTime={step.until} title={exact(step.until)}>committed {clock(step.until)}</time> : null}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
