import { span } from "./page";

const [WIDTH, HEIGHT] = [100, 24];
const LATELY = 4;
const TRENDS = { rising: "↗", steady: "→", falling: "↘" } as const;

/** Delays of an hour as a line that breaks where there was no batch, with an arrow for the last minutes. */
export function Spark({ values }: { values: (number | null)[] }) {
  const known = values.filter((value): value is number => value !== null);
  const last = known[known.length - 1];
  if (last === undefined) return <span className="note">no batch</span>;
  const top = Math.max(1, ...known) * 1.15;
  const x = (index: number) => 2 + (index * (WIDTH - 4)) / Math.max(1, values.length - 1);
  const y = (value: number) => HEIGHT - 2 - (value / top) * (HEIGHT - 5);
  const line = values.map((value, index) => (value === null ? "" : `${values[index - 1] == null ? "M" : "L"}${x(index).toFixed(1)},${y(value).toFixed(1)}`)).join("");
  const end = values.lastIndexOf(last);
  const trend = trendOf(values);
  return (
    <span className="spark">
      <svg role="img" aria-label={`last ${span(last)}, highest ${span(Math.max(...known))}, ${trend}`} width={WIDTH} height={HEIGHT}>
        <title>{`last ${span(last)}, highest ${span(Math.max(...known))} in an hour`}</title>
        <path d={line} fill="none" stroke="var(--blue)" strokeWidth="1.5" strokeLinejoin="round" />
        <circle cx={x(end)} cy={y(last)} r="2.5" fill="var(--blue)" />
      </svg>
      <span aria-hidden="true" title={trend}>{TRENDS[trend]}</span>
    </span>
  );
}

/** The mean of the last six minutes beside that of the six before: 5 % and a tenth of a second are steady. */
function trendOf(values: (number | null)[]): keyof typeof TRENDS {
  const mean = (of: (number | null)[]) => {
    const found = of.filter((value): value is number => value !== null);
    return found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : undefined;
  };
  const now = mean(values.slice(-LATELY));
  const before = mean(values.slice(-2 * LATELY, -LATELY));
  if (now === undefined || before === undefined || Math.abs(now - before) <= Math.max(0.1, before * 0.05)) return "steady";
  return now > before ? "rising" : "falling";
}
